"""Queries on PostgreSQL servers, in a transaction that cannot write and is rolled back."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from whence.data.addresses import Server
from whence.data.readers.delimited import parse_csv
from whence.data.readers.query import Query
from whence.data.readers.sql_text import POSTGRES

if TYPE_CHECKING:
    import psycopg

BUFFER = 1 << 16
WAIT_SECONDS = 10
TEXT_TYPES = (18, 19, 25, 1042, 1043, 2950)
"""The type numbers of PostgreSQL for char, name, text, bpchar, varchar and uuid."""
SETTINGS = """
SET default_transaction_read_only = on;
SET standard_conforming_strings = on;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
"""
"""They override the options in the URL."""


@dataclass(frozen=True)
class PostgresQuery(Query):
    """A query on a PostgreSQL server."""

    grammar = POSTGRES

    server: Server

    def names(self) -> list[str]:
        """Return the columns of the result."""
        return [name for name, _ in self._columns]

    @cached_property
    def _columns(self) -> list[tuple[str, int]]:
        """Names and type numbers of the columns."""
        with self._transaction() as connection:
            return self._declare(connection)

    def first_rows(self, count: int) -> Sequence[Sequence[object]]:
        """Return the first rows of the result; the server computes no others if it can."""
        with (
            self._transaction() as connection,
            connection.cursor(name="events", scrollable=False) as cursor,
        ):
            cursor.execute(self.query.encode())
            return cursor.fetchmany(count)

    def read(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """Return these columns, streamed as CSV by COPY, which is fastest."""
        with self._transaction() as connection, connection.cursor() as cursor:
            self._declare(connection)
            with cursor.copy(self._copy_statement(connection)) as copy:
                content = pa.PythonFile(io.BufferedReader(_Stream(copy), BUFFER))
                table = parse_csv(content, self.names(), columns, ids, skip=0)
        for name, kind in self._columns:
            if name in columns and kind in TEXT_TYPES:
                place = table.schema.get_field_index(name)
                table = table.set_column(place, name, table[name].cast(pa.string()))
        return table

    def _declare(self, connection: psycopg.Connection[Any]) -> list[tuple[str, int]]:
        """Return the columns, or raise if the query is not exactly one SELECT.

        DECLARE … CURSOR FOR takes nothing else, and psycopg sends it with the extended protocol,
        which takes one statement. The query is parsed, but not run.
        """
        with connection.cursor(name="events", scrollable=False) as cursor:
            cursor.execute(self.query.encode())
            return [(column.name, column.type_code) for column in cursor.description or ()]

    def _copy_statement(self, connection: psycopg.Connection[Any]) -> bytes:
        """Return a COPY of a declared query, after the server parsed it as one statement.

        The query by itself is a SELECT, so it cannot close the parenthesis that it is put in. It
        gets its own lines, since it may end in a comment.
        """
        from psycopg import errors, pq

        statement = f"COPY (\n{self.query}\n) TO STDOUT (FORMAT csv)".encode()
        parsed = connection.pgconn.prepare(b"", statement)
        if parsed.status != pq.ExecStatus.COMMAND_OK:
            raise errors.error_from_result(parsed)
        return statement

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection[Any]]:
        import psycopg
        from psycopg.conninfo import make_conninfo

        try:
            with psycopg.connect(
                make_conninfo(**self.server.parts, **self.server.secrets),
                connect_timeout=WAIT_SECONDS,
                client_encoding="utf8",
                autocommit=True,
            ) as connection:
                connection.execute(SETTINGS)
                connection.read_only = True
                with connection.transaction(force_rollback=True):
                    yield connection
        except (psycopg.Error, UnicodeError, pa.ArrowException) as problem:
            said = str(problem).replace("DECLARE CURSOR", "the query")
            raise self.failed(self.server.cleaned(said)) from None


class _Stream(io.RawIOBase):
    """A file that can be read once, made of blocks of bytes."""

    def __init__(self, blocks: Iterable[bytes | bytearray | memoryview]) -> None:
        self.blocks, self.rest = iter(blocks), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401
        if not self.rest:
            self.rest = bytes(next(self.blocks, b""))
        size = min(len(buffer), len(self.rest))
        buffer[:size], self.rest = self.rest[:size], self.rest[size:]
        return size
