"""Columns of Python values, taken over block by block."""

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
    """A column that grows by blocks of values.

    Ids of several kinds, or too large for 64 bits, are texts; other values are of one kind, and
    numbers may be whole in one block and not in the next.
    """

    place: str
    name: str
    is_id: bool
    parts: list[pa.Array] = field(default_factory=list)
    rows: int = 0

    def append(self, values: Sequence[Any]) -> None:
        """The next values, or the row of the first that does not fit."""
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
        """All blocks as one column."""
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
            f"{self.place}, row {row + 1}, column '{self.name}': {value} is of another kind than "
            "the values before it; write all of them alike."
        )


def _id_text(value: object) -> str | None:
    """7, 7.0 and "7" are one id."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float):
        return str(value)
    raise TypeError(f"{value!r} is no id")


def _whole(part: pa.Array) -> pa.Array:
    """Floats as whole numbers, if they are."""
    try:
        return part.cast(pa.int64()) if pa.types.is_floating(part.type) else part
    except pa.ArrowInvalid:
        return part


def _unlike(value: object, usual: type) -> bool:
    """Whether it cannot stand in one column with values of the usual type."""
    if isinstance(value, str):
        return usual is not str or any("\ud800" <= letter <= "\udfff" for letter in value)
    if type(value) is int and abs(value) >= 2**63:
        return True
    return value is not None and type(value) is not usual
