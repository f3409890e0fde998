"""Files with a user and one or more items per line, such as those of SASRec."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from whence.data.readers.delimited import (
    ONE_CHARACTER,
    SAMPLED_ROWS,
    TEXT_IDS,
    UNREADABLE,
    decoded_sample,
    parse_csv,
)
from whence.data.readers.source_files import (
    block_size,
    clear_read_errors,
    not_in_encoding,
    open_bytes,
)
from whence.data.readers.tabular import FileTable, ReadOptions
from whence.errors import InputError

EMPTY = pa.table({"user": pa.array([], TEXT_IDS), "item": pa.array([], TEXT_IDS)})


@dataclass(frozen=True)
class SequenceFile(FileTable):
    """Lines of `user item item …`, separated by blanks; a user may have several lines."""

    reading: ReadOptions

    def names(self) -> list[str]:
        """Return the names of the two columns."""
        return ["user", "item"]

    def read(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """Return one row for each item of a line."""
        table = self._pairs()
        if table is None:
            tables, row = [EMPTY], 1
            for lines in self._lines().chunks:
                tables.append(self._exploded(lines, row))
                row += len(lines)
            table = pa.concat_tables(tables)
        return table.select(list(columns))

    def _pairs(self) -> pa.Table | None:
        """Return the table of a file with one item per line, or None if a line differs."""
        first = decoded_sample(self.path, self.reading.encoding).split("\n")[:SAMPLED_ROWS]
        if any(len(line.split(" ")) != 2 for line in first if line):
            return None
        with clear_read_errors(self.place), open_bytes(self.path) as content:
            try:
                table = parse_csv(
                    content,
                    self.names(),
                    self.names(),
                    self.names(),
                    separator=" ",
                    quotes=False,
                    encoding=self.reading.encoding,
                    skip=0,
                    block=block_size(self.path),
                )
            except UNREADABLE:
                return None
        return table if all(map(_single_words, table.columns)) else None

    def _exploded(self, lines: pa.Array, first_row: int) -> pa.Table:
        filled = pc.not_equal(lines, "").to_numpy(zero_copy_only=False)
        words = pc.ascii_split_whitespace(lines.filter(pa.array(filled)))
        flat, sizes = words.flatten(), pc.list_value_length(words).to_numpy()
        if (sizes < 2).any():
            row = first_row + int(np.flatnonzero(filled)[np.argmax(sizes < 2)])
            raise InputError(f"{self.path}, row {row}: a user without items. Correct that row.")
        starts = np.cumsum(sizes) - sizes
        is_item = np.ones(len(flat), dtype=bool)
        is_item[starts] = False
        users = flat.take(pa.array(starts)).dictionary_encode()
        repeated = np.repeat(users.indices.to_numpy(), sizes - 1)
        return pa.table(
            {
                "user": pa.DictionaryArray.from_arrays(repeated, users.dictionary),
                "item": flat.filter(pa.array(is_item)).dictionary_encode(),
            }
        )

    def _lines(self) -> pa.ChunkedArray:
        with clear_read_errors(self.place), open_bytes(self.path) as content:
            try:
                table = pa_csv.read_csv(
                    content,
                    pa_csv.ReadOptions(
                        column_names=["line"],
                        encoding=self.reading.encoding,
                        block_size=block_size(self.path),
                    ),
                    pa_csv.ParseOptions(
                        delimiter=ONE_CHARACTER, quote_char=False, ignore_empty_lines=False
                    ),
                    pa_csv.ConvertOptions(column_types={"line": pa.string()}),
                )
            except UNREADABLE as problem:
                if "UTF8" in str(problem) or isinstance(problem, UnicodeError):
                    raise not_in_encoding(self.place, self.reading.encoding) from None
                raise InputError(f"{self.path} is not a text file: {problem}.") from None
        return pc.ascii_trim_whitespace(table["line"])


def _single_words(ids: pa.ChunkedArray) -> bool:
    """Return whether every value is one word."""
    odd = (pc.any(pc.match_substring_regex(chunk.dictionary, r"\s|^$")) for chunk in ids.chunks)
    return not ids.null_count and not any(one.as_py() for one in odd)
