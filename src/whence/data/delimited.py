"""Interactions from a CSV file with a header."""

from __future__ import annotations

import csv
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from whence.data.interactions import Interactions
from whence.errors import InputError

GUESSES = {
    "user": ("user", "userid", "uid", "customer", "customerid", "reviewerid", "visitorid"),
    "item": ("item", "itemid", "iid", "movieid", "productid", "asin", "trackid", "bookid"),
    "time": ("time", "timestamp", "ts", "date", "datetime", "unixreviewtime", "createdat"),
    "rating": ("rating", "stars", "overall", "score"),
    "title": ("title", "itemtitle", "itemname", "movietitle", "productname"),
}
NEEDED = ("user", "item")
NOT_USED = "none"
DATE = r"^\d{4}-\d\d-\d\d"
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
SECONDS_IN_RANGE = 2.0**62


@dataclass(frozen=True)
class Columns:
    """Which column holds what; what is left out is guessed, and "none" is not used."""

    user: str | None = None
    item: str | None = None
    time: str | None = None
    rating: str | None = None
    title: str | None = None


def read_csv(path: Path, columns: Columns) -> Interactions:
    """The file's rows as events; without a time column the row order is the order in time."""
    names = _resolve(path, _header(path), columns)
    table = _parse(path, names)
    if table.num_rows == 0:
        raise InputError(f"{path} has a header and no rows; there is nothing to learn from.")
    read = {role: _Column(path, name, table[name]) for role, name in names.items()}
    return Interactions.from_columns(
        user=read["user"].ids(),
        item=read["item"].ids(),
        time=read["time"].seconds() if "time" in read else None,
        rating=read["rating"].numbers().astype(np.float32) if "rating" in read else None,
        item_features={"title": read["title"].values} if "title" in read else None,
        origin={
            "source": str(path.absolute()),
            "columns": {role: names.get(role, NOT_USED) for role in GUESSES},
        },
    )


def _header(path: Path) -> list[str]:
    """The column names, each there once."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), [])
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8; save the file in that encoding.") from None
    except (OSError, csv.Error) as problem:
        raise InputError(f"{path} cannot be read: {problem}.") from None
    if len(header) == 1 and (separator := next((c for c in ";\t|" if c in header[0]), None)):
        raise InputError(f"{path} is separated by {separator!r}; save it with commas instead.")
    if not header:
        raise InputError(f"{path} is empty; it needs a header and rows.")
    for name in header:
        if header.count(name) > 1:
            raise InputError(f"{path} has two columns '{name}'; rename one of them.")
    return header


def _resolve(path: Path, header: list[str], columns: Columns) -> dict[str, str]:
    """Role to column name: as told, else by guess."""
    told = {role: name for role, name in asdict(columns).items() if name is not None}
    for role, name in told.items():
        if name not in header and name != NOT_USED:
            raise InputError(
                f"{path} has no column '{name}' for the {role}; it has {', '.join(header)}."
            )
    bare = {re.sub(r"[^a-z]", "", name.lower()): name for name in reversed(header)}
    guessed = {
        role: next(bare[guess] for guess in guesses if guess in bare)
        for role, guesses in GUESSES.items()
        if not bare.keys().isdisjoint(guesses)
    }
    names = {role: name for role, name in {**guessed, **told}.items() if name != NOT_USED}
    for need in NEEDED:
        if need not in names:
            raise InputError(
                f"{path}: which column is the {need}? Say --{need} NAME; it has "
                f"{', '.join(header)}."
            )
    return names


def _parse(path: Path, names: dict[str, str]) -> pa.Table:
    """The named columns; ids and titles as they are written, so that 007 stays 007.

    After a failure once more in one thread, which alone knows the row.
    """
    as_written = {names[role]: pa.string() for role in ("user", "item", "title") if role in names}
    convert = pa_csv.ConvertOptions(
        column_types=as_written,
        include_columns=list(dict.fromkeys(names.values())),
        strings_can_be_null=True,
        null_values=[""],
        quoted_strings_can_be_null=False,
    )
    try:
        return pa_csv.read_csv(path, convert_options=convert)
    except pa.ArrowInvalid:
        try:
            single = pa_csv.ReadOptions(use_threads=False)
            return pa_csv.read_csv(path, single, convert_options=convert)
        except pa.ArrowInvalid as problem:
            raise InputError(f"{path} is not a readable CSV file: {problem}.") from None
    except (OSError, pa.ArrowException) as problem:
        raise InputError(f"{path} cannot be read: {problem}.") from None


@dataclass(frozen=True)
class _Column:
    """One column, and what to say when it cannot be used."""

    path: Path
    name: str
    values: pa.ChunkedArray

    def ids(self) -> pa.ChunkedArray:
        """Whole numbers where every id is written as one, else texts."""
        self._refuse_gaps()
        try:
            numbers = self.values.cast(pa.int64())
        except pa.ArrowInvalid:
            return self.values
        same = pc.all(pc.equal(numbers.cast(pa.string()), self.values)).as_py()
        return numbers if same else self.values

    def seconds(self) -> npt.NDArray[np.float64]:
        """Times from numbers or dates, with their fractions, which decide the order."""
        self._refuse_gaps()
        if pa.types.is_timestamp(self.values.type) or pa.types.is_date(self.values.type):
            micro = self.values.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
            return np.asarray(micro.to_numpy() / 1e6)
        seconds = self.numbers(or_date=True)
        if not (np.abs(seconds) < SECONDS_IN_RANGE).all():
            row = int(np.argmax(np.abs(seconds)))
            raise self._error(row, f"{seconds[row]} is no time")
        return seconds

    def numbers(self, or_date: bool = False) -> npt.NDArray[np.float64]:
        """Numbers, or the row of the first value that is none."""
        self._refuse_gaps()
        if pa.types.is_integer(self.values.type) or pa.types.is_floating(self.values.type):
            numbers = np.asarray(self.values.to_numpy(), dtype=np.float64)
            if not np.isfinite(numbers).all():
                row = int(np.flatnonzero(~np.isfinite(numbers))[0])
                raise self._error(row, f"{numbers[row]} is no number")
            return numbers
        raise self._no_number(or_date)

    def _no_number(self, or_date: bool) -> InputError:
        """Which row kept Arrow from taking the column for numbers or dates."""
        first = str(self.values[0])
        dates = or_date and re.match(DATE, first) is not None
        row = self._first_unlike(DATE if dates else NUMBER)
        if row is None and dates:
            row = self._first_unlike("^" + re.sub(r"\d", r"\\d", re.escape(first)) + "$")
            if row is not None:
                return self._error(row, f"'{self.values[row]}' is written otherwise than '{first}'")
        expected = (
            "seconds or a date such as 2026-01-31 or 2026-01-31 18:30:00" if or_date else "a number"
        )
        return self._error(row or 0, f"'{self.values[row or 0]}' is not {expected}")

    def _first_unlike(self, pattern: str) -> int | None:
        """The first row that does not match, if the column is of texts and there is one."""
        if not pa.types.is_string(self.values.type):
            return None
        row = pc.index(pc.match_substring_regex(self.values, pattern), False).as_py()
        return None if row < 0 else int(row)

    def _refuse_gaps(self) -> None:
        if self.values.null_count:
            row = pc.index(pc.is_null(self.values), True).as_py()
            raise self._error(row, "there is no value")

    def _error(self, row: int, problem: str) -> InputError:
        """With the line of the file, the header being line 1."""
        return InputError(f"{self.path}, row {row + 2}, column '{self.name}': {problem}.")
