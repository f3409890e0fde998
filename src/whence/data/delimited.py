"""Interactions from a CSV file with a header."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
    "title": ("title", "name", "itemtitle", "itemname", "movietitle", "productname"),
}
NEEDED = ("user", "item")


@dataclass(frozen=True)
class Columns:
    """Which column holds what; what is left out is guessed from the header."""

    user: str | None = None
    item: str | None = None
    time: str | None = None
    rating: str | None = None
    title: str | None = None


def read_csv(path: Path, columns: Columns) -> Interactions:
    """The file's rows as events; without a time column the row order is the order in time."""
    table = _parse(path)
    if table.num_rows == 0:
        raise InputError(f"{path} has a header and no rows; there is nothing to learn from.")
    names = _resolve(path, table.column_names, columns)
    for name in names.values():
        _refuse_undecodable(path, name, table[name])
    for need in NEEDED:
        _refuse_gaps(path, names[need], table[names[need]])
    return Interactions.from_columns(
        user=table[names["user"]],
        item=table[names["item"]],
        time=_seconds(path, table, names.get("time")),
        rating=_numbers(path, table, names.get("rating")),
        item_features={"title": _texts(table, names["title"])} if "title" in names else None,
        origin={"source": str(path.absolute()), "columns": asdict(columns)},
    )


def _parse(path: Path) -> pa.Table:
    """The whole table; after a failure once more in one thread, which alone knows the row."""
    try:
        return pa_csv.read_csv(path)
    except pa.ArrowInvalid:
        try:
            return pa_csv.read_csv(path, pa_csv.ReadOptions(use_threads=False))
        except pa.ArrowInvalid as problem:
            if "Empty CSV" in str(problem):
                raise InputError(f"{path} is empty; it needs a header and rows.") from None
            raise InputError(f"{path} is not a readable CSV file: {problem}.") from None
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {problem.strerror or problem}.") from None


def _resolve(path: Path, header: list[str], columns: Columns) -> dict[str, str]:
    """Role to column name: as told, else by guess."""
    told = {role: name for role, name in asdict(columns).items() if name is not None}
    for role, name in told.items():
        if name not in header:
            raise InputError(
                f"{path} has no column '{name}' for the {role}; it has {', '.join(header)}."
            )
    bare = {re.sub(r"[^a-z]", "", name.lower()): name for name in reversed(header)}
    guessed = {
        role: next((bare[guess] for guess in guesses if guess in bare), None)
        for role, guesses in GUESSES.items()
    }
    names = {**{role: name for role, name in guessed.items() if name}, **told}
    for need in NEEDED:
        if need not in names:
            raise InputError(
                f"{path}: which column is the {need}? Say --{need} NAME; it has "
                f"{', '.join(header)}."
            )
    return names


def _refuse_gaps(path: Path, name: str, column: pa.ChunkedArray) -> None:
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise InputError(f"{path}, row {row + 2}, column '{name}': there is no value.")


def _refuse_undecodable(path: Path, name: str, column: pa.ChunkedArray) -> None:
    """Arrow reads a text column with bytes that are not UTF-8 as binary."""
    if not pa.types.is_binary(column.type):
        return
    for row, value in enumerate(column.to_pylist()):
        try:
            (value or b"").decode()
        except UnicodeDecodeError:
            raise InputError(
                f"{path}, row {row + 2}, column '{name}': {value!r} is not UTF-8; save the file "
                "in that encoding."
            ) from None


def _seconds(path: Path, table: pa.Table, name: str | None) -> npt.NDArray[np.int64] | None:
    """Times as whole seconds, from numbers or dates."""
    if name is None:
        return None
    column = table[name]
    _refuse_gaps(path, name, column)
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    seconds = _cast(path, name, column, pa.float64() if _is_float(column) else pa.int64())
    return seconds.astype(np.int64)


def _numbers(path: Path, table: pa.Table, name: str | None) -> npt.NDArray[np.float32] | None:
    if name is None:
        return None
    _refuse_gaps(path, name, table[name])
    return _cast(path, name, table[name], pa.float64()).astype(np.float32)


def _cast(path: Path, name: str, column: pa.ChunkedArray, to: pa.DataType) -> npt.NDArray[Any]:
    """Numbers, or the row of the first value that is none."""
    if pa.types.is_string(column.type):
        number = pc.match_substring_regex(column, r"^\s*[-+]?\d+(\.\d*)?\s*$")
        row = pc.index(number, False).as_py()
        if row >= 0:
            raise InputError(
                f"{path}, row {row + 2}, column '{name}': '{column[row]}' is not a number"
                f"{' or a date' if to == pa.int64() else ''}."
            )
        column = pc.utf8_trim_whitespace(column)
    numbers = column.cast(to).to_numpy()
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise InputError(f"{path}, row {row + 2}, column '{name}': {numbers[row]} is no number.")
    return np.asarray(numbers)


def _is_float(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_floating(column.type))


def _texts(table: pa.Table, name: str) -> pa.ChunkedArray:
    return table[name].cast(pa.string())
