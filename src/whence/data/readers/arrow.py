"""Parquet files, and frames in memory that speak Arrow: pandas, Polars, Arrow itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from whence.data.readers.source_files import clear_read_errors, compression_of, open_bytes
from whence.data.readers.tabular import FileTable, Frame, Tabular
from whence.errors import InputError

DAMAGED = (pa.ArrowException, OSError)


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

    def dated(self) -> list[str]:
        """The columns of a date or time type."""
        return _dated(self._table.schema)

    def read(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """Its columns, categories as the values they stand for."""
        return _decoded(self._table.select(list(columns)))

    @cached_property
    def _table(self) -> pa.Table:
        try:
            return pa.table(self.frame)
        except OverflowError:
            raise InputError(
                "The table has whole numbers of more than 64 bits; make texts of them."
            ) from None
        except (pa.ArrowException, TypeError, ValueError) as problem:
            mixed = isinstance(problem, pa.ArrowException)
            advice = " Give every column one kind of values." if mixed else ""
            raise InputError(f"The table cannot be taken over: {problem}.{advice}") from None


@dataclass(frozen=True)
class ParquetTable(FileTable):
    """A Parquet file."""

    def names(self) -> list[str]:
        """Its columns."""
        return list(self._schema.names)

    @cached_property
    def _schema(self) -> pa.Schema:
        with clear_read_errors(self.place):
            try:
                return self._file.schema_arrow
            except DAMAGED as problem:
                raise self._damaged(problem) from None

    def dated(self) -> list[str]:
        """The columns of a date or time type."""
        return _dated(self._schema)

    def read(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """Only these columns are read."""
        with clear_read_errors(self.place):
            try:
                table = self._file.read(columns=list(columns))
                table.validate(full=True)
            except DAMAGED as problem:
                raise self._damaged(problem) from None
        return _decoded(table)

    @property
    def _file(self) -> pq.ParquetFile:
        """Parquet is read from many places at once, so a packed file is unpacked before."""
        if compression_of(self.path):
            with open_bytes(self.path) as content:
                return pq.ParquetFile(pa.BufferReader(content.read()))
        return pq.ParquetFile(self.path)

    def _damaged(self, problem: Exception) -> Exception:
        if isinstance(problem, OSError) and problem.errno is not None:
            return problem  # the system's complaint, not Parquet's
        return InputError(f"{self.path} is a damaged Parquet file ({problem}); copy it again.")


def _dated(schema: pa.Schema) -> list[str]:
    kinds = (pa.types.is_timestamp, pa.types.is_date)
    return [one.name for one in schema if any(is_it(one.type) for is_it in kinds)]


def _decoded(table: pa.Table) -> pa.Table:
    """Without dictionaries, whose order would be the order of the ids."""
    columns = [
        pa.chunked_array([_texts(chunk.dictionary).take(chunk.indices) for chunk in column.chunks])
        if pa.types.is_dictionary(column.type) and column.num_chunks
        else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def _texts(values: pa.Array) -> pa.Array:
    """Texts of a kind that Arrow can pick from."""
    return values.cast(pa.string()) if pa.types.is_string_view(values.type) else values
