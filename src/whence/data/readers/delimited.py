"""Text files with one row per line: CSV, TSV, and the `::` files of MovieLens."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from whence.data.readers.dates import is_number, like_time, most
from whence.data.readers.source_files import (
    MOST_BLOCK,
    block_size,
    clear_read_errors,
    not_in_encoding,
    open_bytes,
    read_all,
    sample,
)
from whence.data.readers.tabular import FileTable, ReadOptions, guess_roles
from whence.errors import InputError
from whence.text import shortened

QUOTE, LINE_END = b'"', b"\n"


def has_quotes(path: Path, separator: str) -> bool:
    """Return whether values are quoted; raise if some quotes are not closed.

    Inside unquoted values, as in 5" disc, a quote is an ordinary character. In files separated by
    tabs a value may even start with one, since such files seldom quote.
    """
    found = _Quotes(separator)
    with clear_read_errors(str(path)), open_bytes(path) as file:
        for block in _blocks(file):
            found.scan(block)
    if found.wrong_line is None and found.inside:
        found.wrong_line = found.opened_line
    if found.wrong_line is None or separator == "\t" or not found.any_opens:
        return found.any_opens and found.wrong_line is None
    raise InputError(
        f'{path}, row {found.wrong_line + 1}: a quote (") is not closed at the end of its value. '
        "Double the quotes inside values, or remove them."
    )


@dataclass
class _Quotes:
    """The state of scanning a file for quotes."""

    separator: str
    inside: bool = False
    any_opens: bool = False
    lines: int = 0
    opened_line: int = 0
    wrong_line: int | None = None
    before: bytes = LINE_END

    def scan(self, block: bytes) -> None:
        """Scan a block that does not end within a run of quotes."""
        if QUOTE in block:
            self._runs(np.frombuffer(self.before + block + LINE_END, dtype=np.uint8))
        self.lines += block.count(LINE_END)
        self.before = block[-1:]

    def _runs(self, content: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        """Check the odd runs of quotes: they must start and end values in turn."""
        quote = content == ord(QUOTE)
        first = np.flatnonzero(quote[1:] & ~quote[:-1]) + 1
        last = np.flatnonzero(quote[:-1] & ~quote[1:])
        edges = [ord(one) for one in (self.separator, "\n", "\r")]
        opens, closes = np.isin(content[first - 1], edges), np.isin(content[last + 1], edges)
        self.any_opens |= bool(opens.any())
        odd = (last - first) % 2 == 0
        first, opens, closes = first[odd], opens[odd], closes[odd]
        opening = (np.arange(len(first)) + self.inside) % 2 == 0
        wrong = np.flatnonzero(np.where(opening, ~opens, ~closes))
        if self.wrong_line is None and len(wrong):
            at = int(wrong[0])
            begun = at if opening[at] else at - 1
            self.wrong_line = self.opened_line if begun < 0 else self._line(content, first[begun])
        if len(first):
            self.inside = bool((len(first) + self.inside) % 2)
            if self.inside:
                self.opened_line = self._line(content, first[-1])

    def _line(self, content: np.ndarray[tuple[int], np.dtype[np.uint8]], place: int) -> int:
        return self.lines + int(np.count_nonzero(content[1:place] == ord(LINE_END)))


def _blocks(file: pa.NativeFile) -> Iterator[bytes]:
    """Yield blocks that do not end in a quote, except the last."""
    while block := file.read(MOST_BLOCK):
        while block.endswith(QUOTE) and (more := file.read(1)):
            block += more
        yield block


SEPARATORS = ("::", "\t", ",", ";", "|")
ONE_CHARACTER = "\x1f"
"""ASCII's unit separator, which no text contains, replaces a separator of two characters."""
SAMPLED_ROWS = 50
MOST_COLUMNS = 10_000
LONGEST_REASON = 200
TEXT_IDS = pa.dictionary(pa.int32(), pa.string())
"""Each id is stored once: a file of many events has few ids."""
UNREADABLE = (pa.ArrowInvalid, UnicodeError)
ROW = re.compile(r"Row #(\d+): (.*)", re.DOTALL)


@dataclass(frozen=True)
class DelimitedFile(FileTable):
    """A file whose columns are named by its first row, or numbered from 1."""

    reading: ReadOptions
    separator: str

    @property
    def first_row(self) -> int:
        """The number of the first row of values, counting the header."""
        return self._blank_lines + (2 if self.has_header else 1)

    def names(self) -> list[str]:
        """Return the names in the header, or numbers from 1."""
        header = self._rows[0]
        return header if self.has_header else [str(place + 1) for place in range(len(header))]

    def guesses(self) -> dict[str, str]:
        """Return role to column name.

        Without a header, the first columns are user and item, and values decide about the others.
        """
        if self.has_header:
            return guess_roles(self.names())
        roles = {"user": "1", "item": "2"} if len(self._rows[0]) > 1 else {}
        for place in range(2, len(self._rows[0])):
            values = [row[place] for row in self._rows if len(row) > place and row[place]]
            kind = "time" if most(map(like_time, values)) else "rating"
            if kind not in roles and (kind == "time" or most(map(is_number, values))):
                roles[kind] = str(place + 1)
        return roles

    def note_on_names(self) -> str:
        """Return a hint that the header may be an event."""
        return " (if that is an event, give --no-header)" if self.has_header else ""

    def first_values(self) -> dict[str, Sequence[str]]:
        """Return the cells of the first rows."""
        rows = self._rows[1:] if self.has_header else self._rows
        columns = zip_longest(*rows, fillvalue="")
        return dict(zip(self.names(), columns, strict=False))

    @cached_property
    def has_header(self) -> bool:
        """Whether the first row names the columns: as given, or if it holds no number.

        In a `::` file the names must be known ones.
        """
        if self.reading.header is not None:
            return self.reading.header
        first = self._rows[0]
        if any(map(is_number, first)):
            return False
        return self.separator != "::" or {"user", "item"} <= guess_roles(first).keys()

    def read(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """Return these columns; after a failure, a single thread parses again to find the row."""
        try:
            return self._parse(columns, ids, threads=True)
        except UNREADABLE:
            try:
                return self._parse(columns, ids, threads=False)
            except UNREADABLE as problem:
                raise self._explained(str(problem)) from None

    def _parse(self, columns: Sequence[str], ids: Collection[str], threads: bool) -> pa.Table:
        with clear_read_errors(self.place), self._content() as content:
            return parse_csv(
                content,
                self.names(),
                columns,
                ids,
                separator=ONE_CHARACTER if len(self.separator) > 1 else self.separator,
                quotes=self._has_quotes,
                encoding=self.reading.encoding,
                skip=self.first_row - 1,
                block=block_size(self.path),
                threads=threads,
            )

    @cached_property
    def _has_quotes(self) -> bool:
        """Whether values are quoted; never in `::` files, where titles may start with a quote."""
        if len(self.separator) > 1:
            return False
        wide = codecs.lookup(self.reading.encoding).name.startswith(("utf-16", "utf-32"))
        return wide or has_quotes(self.path, self.separator)

    def _content(self) -> pa.NativeFile | BinaryIO:
        if len(self.separator) == 1:
            return open_bytes(self.path)
        whole = read_all(self.path)
        return io.BytesIO(whole.replace(self.separator.encode(), ONE_CHARACTER.encode()))

    @cached_property
    def _text(self) -> str:
        return decoded_sample(self.path, self.reading.encoding)

    @cached_property
    def _blank_lines(self) -> int:
        """The number of blank lines before the first row."""
        return self._text[: len(self._text) - len(self._text.lstrip("\r\n"))].count("\n")

    @cached_property
    def _rows(self) -> list[list[str]]:
        """The first rows as lists of cells."""
        rows = split_rows(self._text, self.separator)
        if not rows:
            raise InputError(f"{self.path} is empty. It needs a row for each event.")
        if len(rows[0]) > MOST_COLUMNS:
            raise InputError(
                f"{self.path} has {len(rows[0]):,} columns. A file of events has at most "
                f"{MOST_COLUMNS:,}."
            )
        return rows

    def _explained(self, problem: str) -> InputError:
        """Return the error of Arrow with the row as a person counts it."""
        row = ROW.search(problem)
        if "UTF8" in problem or "codec" in problem:
            return not_in_encoding(self.place, self.reading.encoding, int(row[1]) if row else None)
        if row is None:
            said = shortened(problem, LONGEST_REASON)
            return InputError(f"{self.path} is not a readable table: {said}.")
        what = row[2].replace(ONE_CHARACTER, self.separator).strip().split("\n")[0]
        what = shortened(what, LONGEST_REASON)
        return InputError(
            f"{self.path}, row {row[1]}: {what[:1].lower()}{what[1:]}. Correct that row."
        )


def parse_csv(
    content: pa.NativeFile | BinaryIO,
    names: Sequence[str],
    columns: Sequence[str],
    ids: Collection[str],
    *,
    separator: str = ",",
    quotes: bool = True,
    encoding: str = "utf-8",
    skip: int = 1,
    block: int = MOST_BLOCK,
    threads: bool = True,
) -> pa.Table:
    """Return columns of delimited text; an empty cell is null, and "" is an empty text."""
    return pa_csv.read_csv(
        content,
        pa_csv.ReadOptions(
            column_names=list(names),
            skip_rows=skip,
            encoding=encoding,
            block_size=block,
            use_threads=threads,
        ),
        pa_csv.ParseOptions(
            delimiter=separator,
            quote_char='"' if quotes else False,
            newlines_in_values=quotes,
        ),
        pa_csv.ConvertOptions(
            column_types=dict.fromkeys(ids, TEXT_IDS),
            include_columns=list(columns),
            strings_can_be_null=True,
            null_values=[""],
            quoted_strings_can_be_null=False,
        ),
    )


def decoded_sample(path: Path, encoding: str) -> str:
    """Return the first bytes as text."""
    start = sample(path)
    kind = "utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding
    try:
        # An incremental decoder accepts a last character that is cut in two.
        text = codecs.getincrementaldecoder(kind)().decode(start)
    except UnicodeError as problem:
        place = problem.start if isinstance(problem, UnicodeDecodeError) else 0
        row = start[:place].count(b"\n") + 1
        raise not_in_encoding(str(path), encoding, row) from None
    if start and not text:
        raise not_in_encoding(str(path), encoding, 1)
    return text


def separator_of(text: str) -> str | None:
    """Return the separator that gives the first lines the same and largest number of columns.

    If none does, return one that occurs in the first line.
    """
    widths = {one: {len(row) for row in split_rows(text, one)} for one in SEPARATORS}
    regular = [one for one in SEPARATORS if len(widths[one]) == 1 and widths[one] != {1}]
    in_first_line = [one for one in SEPARATORS if one in text.lstrip().split("\n", 1)[0]]
    return max(regular, key=lambda one: max(widths[one]), default=next(iter(in_first_line), None))


def split_rows(text: str, separator: str) -> list[list[str]]:
    """Return the first rows as lists of cells, without blank rows."""
    if len(separator) > 1:
        rows = (line.split(separator) for line in text.splitlines() if line)
    else:
        rows = (row for row in csv.reader(io.StringIO(text), delimiter=separator) if row)
    try:
        return list(islice(rows, SAMPLED_ROWS))
    except csv.Error:  # such as a NUL character; Arrow will name its row
        return [line.split(separator) for line in text.splitlines()[:SAMPLED_ROWS] if line]
