"""Queries on SQLite and PostgreSQL. A password in the URL is never printed or stored."""

from __future__ import annotations

import io
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from whence.data.readers.column_builder import ROWS_AT_ONCE, ColumnBuilder
from whence.data.readers.delimited import parse_csv
from whence.data.readers.tabular import ReadOptions, Tabular
from whence.errors import InputError

if TYPE_CHECKING:
    import psycopg

SQLITE, POSTGRES = ("sqlite",), ("postgresql", "postgres")
BUFFER = 1 << 16
WAIT_SECONDS = 10
TEXT_TYPES = (18, 19, 25, 1042, 1043, 2950)
"""The type numbers of PostgreSQL for char, name, text, bpchar, varchar and uuid."""


def is_database_url(source: str) -> bool:
    """Return whether this is the URL of a supported database."""
    return "://" in source and _scheme(source) in (*SQLITE, *POSTGRES)


def open_query(url: str, reading: ReadOptions) -> Tabular:
    """Return the result of the query as a table."""
    if not reading.query or not reading.query.strip():
        raise InputError(
            f"{without_password(url)} is a database. Select the events with --query 'SELECT …'."
        )
    query = reading.query.strip().rstrip(";")
    return (SqliteQuery if _scheme(url) in SQLITE else PostgresQuery)(url, query)


def without_password(url: str) -> str:
    """Return the URL without its password; parsed by hand, since it may be malformed."""
    if _scheme(url) not in POSTGRES:
        return url
    scheme, _, rest = url.partition("://")
    login, at, address = rest.rpartition("@")
    place, _, query = address.partition("?")
    if not at:  # text after a colon that is not a port is a password without a host
        place = re.sub(r":(?!\d*(/|$)).*", "", place)
    kept = [one for one in query.split("&") if one and "password" not in one.partition("=")[0]]
    shown = f"{scheme}://{login.partition(':')[0]}{at}{place}"
    return f"{shown}?{'&'.join(kept)}" if kept else shown


def looks_like_address(text: str) -> bool:
    """Return whether a text that names no file may be a database URL with a password."""
    return "://" in text or "password=" in text or re.search(r":.*@", text) is not None


def _secrets(url: str) -> list[str]:
    """Return every form in which a message may repeat the password, the longest first."""
    login, at, address = url.partition("://")[2].rpartition("@")
    said = [(login if at else address).partition(":")[2]]
    said += re.findall(r"password=([^&]*)", address)
    said += [unquote(one) for one in said]
    return sorted((one for one in set(said) if not re.match(r"\d*(/|$)", one)), key=len)[::-1]


def _scheme(url: str) -> str:
    return url.partition("://")[0].lower()


@dataclass(frozen=True)
class _Query(Tabular):
    """The rows of one SELECT."""

    url: str
    query: str

    @property
    def place(self) -> str:
        """The name of the source in messages, without the password."""
        return f"The query on {without_password(self.url)}"

    @property
    def in_order(self) -> bool:
        """Whether the query has an ORDER BY; without one, rows may come in any order."""
        outer, inner = self.query, ""
        while outer != inner:
            outer, inner = re.sub(r"\([^()]*\)", "", outer), outer
        return re.search(r"\border\s+by\b", outer, re.IGNORECASE) is not None

    def _wrong(self, problem: Exception) -> InputError:
        """Return the first line of the database's message, without the password."""
        said = str(problem).strip().split("\n")[0].replace(self.url, without_password(self.url))
        for secret in _secrets(self.url):
            said = said.replace(secret, "***")
        return InputError(f"{self.place} failed: {said}. Check the URL and the query.")


class SqliteQuery(_Query):
    """A query on a SQLite file, which is opened read-only."""

    def names(self) -> list[str]:
        """Return the columns of the result."""
        return self._columns

    @cached_property
    def _columns(self) -> list[str]:
        with self._answer() as cursor:
            return [column[0] for column in cursor.description]

    def read(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """Return these columns, fetched in blocks."""
        taken = {name: ColumnBuilder(self.place, name, name in ids) for name in columns}
        with self._answer() as cursor:
            while rows := cursor.fetchmany(ROWS_AT_ONCE):
                values = dict(zip(self._columns, zip(*rows, strict=True), strict=True))
                for name, column in taken.items():
                    column.append(values[name])
        return pa.table({name: column.joined() for name, column in taken.items()})

    @contextmanager
    def _answer(self) -> Iterator[sqlite3.Cursor]:
        path = Path(unquote(self.url.partition("://")[2].removeprefix("/")))
        if not path.is_file():
            raise InputError(
                f"There is no SQLite file '{path}'. Write the URL as sqlite:///relative/path or "
                "sqlite:////absolute/path."
            )
        try:
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as base:
                cursor = base.execute(self.query)
                if cursor.description is None:
                    raise InputError(f"{self.place} returns no rows. Use a SELECT.")
                yield cursor
        except sqlite3.Error as problem:
            raise self._wrong(problem) from None


class PostgresQuery(_Query):
    """A query on a PostgreSQL server, in a read-only transaction."""

    def names(self) -> list[str]:
        """Return the columns of the result."""
        return [name for name, _ in self._columns]

    @cached_property
    def _columns(self) -> list[tuple[str, int]]:
        """Names and type numbers of the columns."""
        with self._connection() as connection:
            # The query gets its own lines, since it may end in a comment.
            cursor = connection.execute(f"SELECT * FROM (\n{self.query}\n) AS events LIMIT 0")
            return [(column.name, column.type_code) for column in cursor.description or ()]

    def read(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """Return these columns, streamed as CSV by COPY, which is fastest."""
        with self._connection() as connection, connection.cursor() as cursor:
            statement = f"COPY (\n{self.query}\n) TO STDOUT (FORMAT csv)"
            with cursor.copy(statement) as copy:
                content = pa.PythonFile(io.BufferedReader(_Stream(copy), BUFFER))
                table = parse_csv(content, self.names(), columns, ids, skip=0)
        for name, kind in self._columns:
            if name in columns and kind in TEXT_TYPES:
                place = table.schema.get_field_index(name)
                table = table.set_column(place, name, table[name].cast(pa.string()))
        return table

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            import psycopg
        except ImportError:
            raise InputError(
                "PostgreSQL needs the package psycopg. Install it with: "
                "pip install 'whence[postgres]'"
            ) from None
        try:
            with psycopg.connect(
                self.url, connect_timeout=WAIT_SECONDS, client_encoding="utf8"
            ) as connection:
                connection.read_only = True
                connection.execute("SET TimeZone = 'UTC'")
                connection.execute("SET DateStyle = 'ISO'")
                yield connection
        except (psycopg.Error, UnicodeError, pa.ArrowException) as problem:
            raise self._wrong(problem) from None


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
