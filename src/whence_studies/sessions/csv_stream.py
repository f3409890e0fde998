"""CSV files, packed or not, as checked blocks of rows: one block at a time is in memory."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from whence.data.readers.source_files import (
    UTF_8_ALONE,
    clear_read_errors,
    not_in_encoding,
    open_bytes,
    sample,
)
from whence.errors import InputError, nearest

BLOCK: Final = 1 << 23
"""Bytes whose rows are given at a time."""
PIECES: Final = 8
"""Pieces of a block that are read one by one, for Arrow reads up to 32 of them ahead."""
FIRST_ROW: Final = 2
"""The header is row 1."""
UNFIT = re.compile(
    r"In CSV column #(\d+): Row #(\d+): CSV conversion error to (\w+)[^:]*: (.*)", re.S
)
UNEVEN = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
EXPECTED: Final = {
    "bool": "true or false",
    "int32": "a whole number",
    "double": "a number",
    "date32": "a date such as 2018-07-15",
}


@dataclass(frozen=True)
class CsvStream:
    """Some columns of a CSV file with a header, whatever their order and whatever else is there."""

    path: Path
    columns: Mapping[str, pa.DataType]
    may_be_missing: frozenset[str] = frozenset()
    """Columns of which single values may be missing."""
    block: int = BLOCK

    def __post_init__(self) -> None:
        absent = next((name for name in self.columns if name not in self.names), None)
        if absent is not None:
            raise self._no_column(absent)
        twice = next((name for name in self.columns if self.names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{self.path}, row 1: two columns are '{twice}'; leave one out.")

    def _no_column(self, absent: str) -> InputError:
        """Another column that is needed too is no misspelling of this one."""
        near = nearest(absent, [name for name in self.names if name not in self.columns])
        hint = f"if '{near[0]}' is it, rename that" if near else "add it"
        return InputError(f"{self.path}, row 1: there is no column '{absent}'; {hint}.")

    @cached_property
    def names(self) -> list[str]:
        """All columns of the file, from its first row."""
        first = next(iter(sample(self.path).splitlines()), b"")
        try:
            text = first.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise self._not_in_utf_8(1) from None
        header = next(csv.reader([text]), [])
        if not header:
            raise InputError(f"{self.path}, row 1 is empty; it is to name the columns.")
        return [name.strip() for name in header]

    def blocks(self) -> Iterator[tuple[int, pa.Table]]:
        """The number of the first row, and the rows, block after block."""
        row = FIRST_ROW
        try:
            with clear_read_errors(str(self.path)), open_bytes(self.path) as content:
                pieces = self._open(content)
                while some := list(islice(pieces, PIECES)):
                    table = pa.Table.from_batches(some).unify_dictionaries().combine_chunks()
                    self._check_gaps(row, table)
                    yield row, table
                    row += len(table)
        except pa.ArrowInvalid as problem:
            raise self._blamed(str(problem)) from None
        if row == FIRST_ROW:
            raise self._no_rows()

    def place(self, row: int) -> str:
        """Where a row is, in words."""
        return f"{self.path}, row {self._line(row)}"

    def error(self, row: int, column: str, problem: str) -> InputError:
        """One sentence with the place."""
        return InputError(f"{self.place(row)}, column '{column}': {problem}.")

    def _open(self, content: pa.NativeFile) -> Iterator[pa.RecordBatch]:
        return iter(
            pa_csv.open_csv(
                content,
                pa_csv.ReadOptions(
                    column_names=self.names,
                    skip_rows=1,
                    block_size=self.block // PIECES,
                    use_threads=False,
                ),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict(self.columns),
                    include_columns=list(self.columns),
                    strings_can_be_null=True,
                    null_values=[""],
                ),
            )
        )

    def _line(self, row: int) -> int:
        """The line of the file that a row stands on: blank lines are no rows."""
        with clear_read_errors(str(self.path)), open_bytes(self.path) as content:
            text = io.TextIOWrapper(content, "latin-1")
            rows = (number for number, line in enumerate(text, 1) if line != "\n")
            return next(islice(rows, row - 1, None), row)

    def _check_gaps(self, row: int, table: pa.Table) -> None:
        for name in self.columns:
            if table[name].null_count and name not in self.may_be_missing:
                at = pc.index(table[name].is_null(), True).as_py()
                raise self.error(row + at, name, "there is no value")

    def _not_in_utf_8(self, row: int | None) -> InputError:
        return not_in_encoding(str(self.path), "utf-8", row, UTF_8_ALONE)

    def _no_rows(self) -> InputError:
        return InputError(f"{self.path} has no rows but the names of its columns.")

    def _blamed(self, problem: str) -> InputError:
        """Arrow's complaint with the column by its name."""
        if "too short" in problem:  # not even the first row has an end
            return self._no_rows()
        if "UTF8" in problem:
            row = re.search(r"Row #(\d+)", problem)
            return self._not_in_utf_8(self._line(int(row[1])) if row else None)
        if unfit := UNFIT.search(problem):
            column, row_number, kind, said = unfit.groups()
            value = said.removeprefix("invalid value ")
            expected = EXPECTED.get(kind, f"of type {kind}")
            return self.error(
                int(row_number), self.names[int(column)], f"{value} is not {expected}"
            )
        if uneven := UNEVEN.search(problem):
            row_number, expected, got = uneven.groups()
            return InputError(
                f"{self.place(int(row_number))}: there are {got} values where the first row names "
                f"{expected} columns; mend that row."
            )
        return InputError(f"{self.path} is not a readable table: {problem}.")


def first_true(wrong: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int | None:
    """The place of the first that is wrong, if one is."""
    return int(wrong.argmax()) if wrong.any() else None
