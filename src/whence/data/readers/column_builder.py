"""Arrow columns built from blocks of Python values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from whence.errors import InputError

ROWS_AT_ONCE = 1 << 16
NOT_ONE_KIND = (pa.ArrowException, OverflowError, UnicodeEncodeError, TypeError)


@dataclass
class ColumnBuilder:
    """Builds one column from blocks of values.

    Ids of mixed types, or beyond 64 bits, become texts. All other values must be of one type;
    integers and floats may be mixed.
    """

    place: str
    name: str
    is_id: bool
    parts: list[pa.Array] = field(default_factory=list)
    rows: int = 0

    def append(self, values: Sequence[Any]) -> None:
        """Add the next values, or raise an error that names the first row that does not fit."""
        self.parts.append(self._array(values))
        self.rows += len(values)

    def _array(self, values: Sequence[Any]) -> pa.Array:
        try:
            return pa.array(values)
        except NOT_ONE_KIND:
            pass
        try:
            if self.is_id:
                return pa.array([_id_text(value) for value in values])
        except (UnicodeEncodeError, TypeError):
            pass
        usual = next(type(value) for value in values if value is not None)
        at = next((i for i, value in enumerate(values) if _unlike(value, usual)), 0)
        raise self._mixed(self.rows + at, repr(values[at]))

    def joined(self) -> pa.ChunkedArray:
        """Return all blocks as one column."""
        kinds = {part.type for part in self.parts} - {pa.null()}
        if len(kinds) > 1:
            kinds = {pa.string() if self.is_id else pa.float64()}
        kind = kinds.pop() if kinds else pa.string()
        row, cast = 0, []
        for part in self.parts:
            try:
                cast.append(_whole(part).cast(kind) if self.is_id else part.cast(kind))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise self._mixed(row, repr(part[0].as_py())) from None
            row += len(part)
        return pa.chunked_array(cast, kind)

    def _mixed(self, row: int, value: str) -> InputError:
        return InputError(
            f"{self.place}, row {row + 1}, column '{self.name}': {value} has another type than the "
            "values before it. Use one type for the column."
        )


def _id_text(value: object) -> str | None:
    """Return an id as text: 7, 7.0 and "7" are the same id."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float):
        return str(value)
    raise TypeError(f"{value!r} is not an id")


def _whole(part: pa.Array) -> pa.Array:
    """Return floats as integers, if all are whole."""
    try:
        return part.cast(pa.int64()) if pa.types.is_floating(part.type) else part
    except pa.ArrowInvalid:
        return part


def _unlike(value: object, usual: type) -> bool:
    """Return whether a value cannot be in one column with values of the usual type."""
    if isinstance(value, str):
        return usual is not str or any("\ud800" <= letter <= "\udfff" for letter in value)
    if type(value) is int and abs(value) >= 2**63:
        return True
    return value is not None and type(value) is not usual
