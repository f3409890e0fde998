"""Parquet files, and frames in memory that export Arrow: pandas, Polars and pyarrow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from whence.data.readers.dates import FirstValues
from whence.data.readers.source_files import (
    OUT_OF_MEMORY,
    clear_read_errors,
    compression_of,
    read_all,
)
from whence.data.readers.tabular import FileTable, Frame, Tabular
from whence.errors import InputError
from whence.memory import free_memory
from whence.text import shortened

DAMAGED = (pa.ArrowException, OSError, UnicodeError)
DATE_TYPES = (pa.types.is_timestamp, pa.types.is_date)
TEXT_TYPES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
)
SAMPLED = (*TEXT_TYPES, *DATE_TYPES, pa.types.is_integer, pa.types.is_floating)
SAMPLED_ROWS = 50
BYTES_PER_VALUE = 4
"""The least memory that a value takes."""
LONGEST_REASON = 200


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

    def first_values(self) -> FirstValues:
        """Return the first texts and dates of each column."""
        return _first_values(self._table.slice(0, SAMPLED_ROWS))

    def dated(self) -> list[str]:
        """Return the columns of a date type, and of texts that are dates."""
        return _dated(self._table.schema, super().dated())

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
        with self._clear_errors():
            return self._file.schema_arrow

    def first_values(self) -> FirstValues:
        """Return the first texts and dates of each column."""
        columns = [one.name for one in self._schema if any(is_it(one.type) for is_it in SAMPLED)]
        with self._clear_errors():
            file = self._file
            if not columns or not file.metadata.num_row_groups:
                return {}
            self._check_size(file.metadata, 1)
            first = next(file.iter_batches(SAMPLED_ROWS, row_groups=[0], columns=columns), None)
            if first is None:
                return {}
            first.validate(full=True)
            return _first_values(pa.table(first))

    def dated(self) -> list[str]:
        """Return the columns of a date type, and of texts that are dates."""
        return _dated(self._schema, super().dated())

    def read(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """Return these columns; no others are read."""
        with self._clear_errors():
            file = self._file
            self._check_size(file.metadata, len(columns))
            table = file.read(columns=list(columns))
            table.validate(full=True)
            return _decoded(table)

    def _check_size(self, metadata: pq.FileMetaData, columns: int) -> None:
        """Raise if the rows do not fit into memory: a few bytes may announce any number of them."""
        groups = (metadata.row_group(place) for place in range(metadata.num_row_groups))
        rows = sum(group.num_rows for group in groups)
        if rows != metadata.num_rows or rows < 0:
            raise self._damaged(pa.ArrowInvalid("its numbers of rows differ"))
        if rows * columns * BYTES_PER_VALUE > free_memory():
            raise MemoryError

    @property
    def _file(self) -> pq.ParquetFile:
        """The open file; compressed files are decompressed first, for random access."""
        if compression_of(self.path):
            return pq.ParquetFile(pa.BufferReader(read_all(self.path)))
        return pq.ParquetFile(self.path)

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        with clear_read_errors(self.place):
            try:
                yield
            except OUT_OF_MEMORY:
                raise
            except DAMAGED as problem:
                raise self._damaged(problem) from None

    def _damaged(self, problem: Exception) -> Exception:
        if isinstance(problem, OSError) and problem.errno is not None:
            return problem  # an error of the system, not of Parquet
        said = shortened(str(problem), LONGEST_REASON)
        return InputError(f"{self.path} is a damaged Parquet file ({said}). Copy it again.")


def _dated(schema: pa.Schema, texts: Sequence[str]) -> list[str]:
    return [
        one.name
        for one in schema
        if any(is_it(one.type) for is_it in DATE_TYPES) or one.name in texts
    ]


def _first_values(table: pa.Table) -> FirstValues:
    """Return texts, dates and numbers as texts."""
    return {
        name: [str(value or "") for value in column.cast(pa.string()).to_pylist()]
        for name, column in zip(table.column_names, _decoded(table).columns, strict=True)
        if any(is_it(column.type) for is_it in SAMPLED)
    }


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
