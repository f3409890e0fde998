"""Parquet files, and frames in memory that speak Arrow: pandas, Polars, Arrow itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.parquet as pq

from whence.data.readers.opening import reading_from
from whence.data.readers.reading import FileTable, Tabular
from whence.errors import InputError

DAMAGED = (pa.ArrowException, OSError)


@runtime_checkable
class Frame(Protocol):
    """A table in memory that can hand its columns over, as pandas, Polars and Arrow can."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow C stream of its rows."""


@dataclass(frozen=True)
class FrameTable(Tabular):
    """A frame in memory."""

    frame: Frame

    @property
    def place(self) -> str:
        """It has no name."""
        return "The table"

    def names(self) -> list[str]:
        """Its columns."""
        return list(self._table.column_names)

    def read(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """Its columns, categories as the values they stand for."""
        return _decoded(self._table.select(list(columns)))

    @cached_property
    def _table(self) -> pa.Table:
        try:
            return pa.table(self.frame)
        except (pa.ArrowException, TypeError, ValueError) as problem:
            raise InputError(
                f"The table cannot be taken over: {problem}. Give every column one kind of values."
            ) from None


@dataclass(frozen=True)
class ParquetTable(FileTable):
    """A Parquet file."""

    def names(self) -> list[str]:
        """Its columns."""
        return list(self._schema.names)

    @cached_property
    def _schema(self) -> pa.Schema:
        with reading_from(self.place):
            try:
                return pq.read_schema(self.path)
            except DAMAGED as problem:
                raise self._damaged(problem) from None

    def read(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """Only these columns are read."""
        with reading_from(self.place):
            try:
                table = pq.ParquetFile(self.path).read(columns=list(columns))
                table.validate(full=True)
            except DAMAGED as problem:
                raise self._damaged(problem) from None
        return _decoded(table)

    def _damaged(self, problem: Exception) -> Exception:
        if isinstance(problem, OSError) and problem.errno is not None:
            return problem  # the system's complaint, not Parquet's
        return InputError(f"{self.path} is a damaged Parquet file ({problem}); copy it again.")


def _decoded(table: pa.Table) -> pa.Table:
    """Without dictionaries, whose order would be the order of the ids."""
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)
