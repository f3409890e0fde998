"""Parquet files, and frames in memory that export Arrow: pandas, Polars and pyarrow."""

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
        """The name of the source in messages."""
        return "The table"

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._table.column_names)

    def dated(self) -> list[str]:
        """Return the columns of a date or time type."""
        return _dated(self._table.schema)

    def read(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """Return these columns, with categories as their values."""
        return _decoded(self._table.select(list(columns)))

    @cached_property
    def _table(self) -> pa.Table:
        try:
            return pa.table(self.frame)
        except OverflowError:
            raise InputError(
                "The table has integers of more than 64 bits. Convert them to text."
            ) from None
        except (pa.ArrowException, TypeError, ValueError) as problem:
            mixed = isinstance(problem, pa.ArrowException)
            advice = " Use one type for each column." if mixed else ""
            raise InputError(
                f"The table cannot be converted to Arrow: {problem}.{advice}"
            ) from None


@dataclass(frozen=True)
class ParquetTable(FileTable):
    """A Parquet file."""

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._schema.names)

    @cached_property
    def _schema(self) -> pa.Schema:
        with clear_read_errors(self.place):
            try:
                return self._file.schema_arrow
            except DAMAGED as problem:
                raise self._damaged(problem) from None

    def dated(self) -> list[str]:
        """Return the columns of a date or time type."""
        return _dated(self._schema)

    def read(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """Return these columns; no others are read."""
        with clear_read_errors(self.place):
            try:
                table = self._file.read(columns=list(columns))
                table.validate(full=True)
            except DAMAGED as problem:
                raise self._damaged(problem) from None
        return _decoded(table)

    @property
    def _file(self) -> pq.ParquetFile:
        """The open file; compressed files are decompressed first, for random access."""
        if compression_of(self.path):
            with open_bytes(self.path) as content:
                return pq.ParquetFile(pa.BufferReader(content.read()))
        return pq.ParquetFile(self.path)

    def _damaged(self, problem: Exception) -> Exception:
        if isinstance(problem, OSError) and problem.errno is not None:
            return problem  # an error of the system, not of Parquet
        return InputError(f"{self.path} is a damaged Parquet file ({problem}). Copy it again.")


def _dated(schema: pa.Schema) -> list[str]:
    kinds = (pa.types.is_timestamp, pa.types.is_date)
    return [one.name for one in schema if any(is_it(one.type) for is_it in kinds)]


def _decoded(table: pa.Table) -> pa.Table:
    """Return the table without dictionaries, whose order would become the order of the ids."""
    columns = [
        pa.chunked_array([_texts(chunk.dictionary).take(chunk.indices) for chunk in column.chunks])
        if pa.types.is_dictionary(column.type) and column.num_chunks
        else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def _texts(values: pa.Array) -> pa.Array:
    """Return texts in a type that supports `take`."""
    return values.cast(pa.string()) if pa.types.is_string_view(values.type) else values
