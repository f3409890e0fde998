"""CSV files, compressed or not, as validated blocks of rows, with one block in memory at a time."""

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
    UTF_8_ONLY,
    clear_read_errors,
    not_in_encoding,
    open_bytes,
    sample,
)
from whence.errors import InputError, nearest
from whence.text import shortened

SHOWN: Final = 80
"""How many characters of a value a message repeats."""
BLOCK: Final = 1 << 23
"""Size of a block in bytes."""
PIECES: Final = 8
"""Number of pieces a block is read in, because Arrow reads up to 32 pieces ahead."""
FIRST_ROW: Final = 2
"""The header is row 1."""
UNFIT = re.compile(
    r"In CSV column #(\d+): Row #(\d+): CSV conversion error to (\w++)[^:]*+: (.*)", re.S
)
UNEVEN = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
EXPECTED: Final = {
    "bool": "true or false",
    "int32": "an integer",
    "double": "a number",
    "date32": "a date such as 2018-07-15",
}


@dataclass(frozen=True)
class CsvStream:
    """Some columns of a CSV file with a header, in any order and next to any others."""

    path: Path
    columns: Mapping[str, pa.DataType]
    may_be_missing: frozenset[str] = frozenset()
    """Columns that may have missing values."""
    block: int = BLOCK

    def __post_init__(self) -> None:
        absent = next((name for name in self.columns if name not in self.names), None)
        if absent is not None:
            raise self._no_column(absent)
        duplicate = next((name for name in self.columns if self.names.count(name) > 1), None)
        if duplicate is not None:
            raise InputError(
                f"{self.path}, row 1: two columns are named '{duplicate}'. Remove one."
            )

    def _no_column(self, absent: str) -> InputError:
        """Report a missing column; never suggest another required one as its misspelling."""
        near = nearest(absent, [name for name in self.names if name not in self.columns])
        hint = f"If '{shortened(near[0], SHOWN)}' is meant, rename it" if near else "Add it"
        return InputError(f"{self.path}, row 1: there is no column '{absent}'. {hint}.")

    @cached_property
    def names(self) -> list[str]:
        """All column names, from the first row of the file."""
        first = next(iter(sample(self.path).splitlines()), b"")
        try:
            text = first.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise self._not_in_utf_8(1) from None
        header = next(csv.reader([text]), [])
        if not header:
            raise InputError(f"{self.path}, row 1 is empty. It must name the columns.")
        return [name.strip() for name in header]

    def blocks(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the number of each block's first row, and its rows."""
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
            raise self._translated(str(problem)) from None
        if row == FIRST_ROW:
            raise self._no_rows()

    def place(self, row: int) -> str:
        """Return the location of a row, for messages."""
        return f"{self.path}, row {self._line(row)}"

    def error(self, row: int, column: str, problem: str) -> InputError:
        """Return an error that names the row and the column."""
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
        """Return the line number of a row in the file, which also counts blank lines."""
        with clear_read_errors(str(self.path)), open_bytes(self.path) as content:
            text = io.TextIOWrapper(content, "latin-1")
            rows = (number for number, line in enumerate(text, 1) if line != "\n")
            return next(islice(rows, row - 1, None), row)

    def _check_gaps(self, row: int, table: pa.Table) -> None:
        for name in self.columns:
            if table[name].null_count and name not in self.may_be_missing:
                at = pc.index(table[name].is_null(), True).as_py()
                raise self.error(row + at, name, "the value is missing")

    def _not_in_utf_8(self, row: int | None) -> InputError:
        return not_in_encoding(str(self.path), "utf-8", row, UTF_8_ONLY)

    def _no_rows(self) -> InputError:
        return InputError(f"{self.path} has column names, but no rows.")

    def _translated(self, problem: str) -> InputError:
        """Translate Arrow's message, with the column's name."""
        if "too short" in problem:  # the first row has no line end
            return self._no_rows()
        if "UTF8" in problem:
            row = re.search(r"Row #(\d+)", problem)
            return self._not_in_utf_8(self._line(int(row[1])) if row else None)
        if unfit := UNFIT.search(problem):
            column, row_number, kind, said = unfit.groups()
            value = shortened(said.removeprefix("invalid value "), SHOWN)
            expected = EXPECTED.get(kind, f"of type {kind}")
            return self.error(
                int(row_number), self.names[int(column)], f"{value} is not {expected}"
            )
        if uneven := UNEVEN.search(problem):
            row_number, expected, got = uneven.groups()
            return InputError(
                f"{self.place(int(row_number))}: there are {got} values, but row 1 names "
                f"{expected} columns. Fix this row."
            )
        said = shortened(problem, SHOWN)
        return InputError(f"{self.path} is not a readable table: {said}.")


def first_true(wrong: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int | None:
    """Return the index of the first True, or None."""
    return int(wrong.argmax()) if wrong.any() else None
