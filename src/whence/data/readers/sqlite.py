"""Queries on SQLite files, which may come from strangers."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from whence.data.addresses import public_name
from whence.data.readers.column_builder import ROWS_AT_ONCE, ColumnBuilder
from whence.data.readers.query import Query
from whence.data.readers.sql_text import SQLITE
from whence.errors import InputError

READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
ACTING = ("load_extension", "fts3_tokenizer", "edit", "readfile", "writefile")
"""Functions that some builds have, and that reach beyond the database."""
MOST_BYTES = 100_000_000
"""The longest value or row."""
STEPS_BETWEEN_SIGNALS = 100_000
SETTINGS = """
PRAGMA trusted_schema = OFF;
PRAGMA cell_size_check = ON;
PRAGMA mmap_size = 0;
PRAGMA query_only = ON;
"""
"""Views may call only harmless functions, and a damaged file is noticed."""


@dataclass(frozen=True)
class SqliteQuery(Query):
    """A query on a SQLite file, which is opened read-only."""

    grammar = SQLITE

    path: str

    def names(self) -> list[str]:
        """Return the columns of the result."""
        return self._columns

    @cached_property
    def _columns(self) -> list[str]:
        with self._answer() as cursor:
            return [column[0] for column in cursor.description]

    def first_rows(self, count: int) -> Sequence[Sequence[object]]:
        """Return the first rows of the result."""
        with self._answer() as cursor:
            return cursor.fetchmany(count)

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
        if not os.path.isfile(self.path):  # noqa: PTH113 - Path raises if the name is too long
            raise InputError(
                f"There is no SQLite file '{public_name(self.path)}'. Write the URL as "
                "sqlite:///relative/path or sqlite:////absolute/path."
            )
        # The path is percent-encoded, so it cannot add parameters.
        address = f"{Path(self.path).absolute().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as base:
                _allow_only_reading(base)
                cursor = base.execute(self.query)
                if cursor.description is None:
                    raise InputError(f"{self.place} returns no rows. Use a SELECT.")
                yield cursor
        except (sqlite3.Error, sqlite3.Warning, UnicodeError) as problem:
            raise self._explained(problem) from None

    def _explained(self, problem: Exception) -> BaseException:
        if getattr(problem, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            return KeyboardInterrupt()  # nothing else interrupts a query
        if "authoriz" in str(problem):  # the code of this error differs between statements
            return InputError(
                f"{self.place} failed: it does more than read ({problem}). The database is "
                "read-only. Use a SELECT."
            )
        return self.failed(str(problem))


def _allow_only_reading(base: sqlite3.Connection) -> None:
    """Refuse everything but a SELECT, whatever the query and the views in the file contain."""
    base.executescript(SETTINGS)
    with suppress(sqlite3.Error):  # what JSON tables need is made here, while that is allowed
        base.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')")
    base.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
    base.set_authorizer(_authorize)
    # Python handles Ctrl-C in this call; without it, an endless query cannot be stopped.
    base.set_progress_handler(lambda: 0, STEPS_BETWEEN_SIGNALS)


def _authorize(action: int, _: str | None, name: str | None, *__: str | None) -> int:
    allowed = action in READING or (
        action == sqlite3.SQLITE_FUNCTION and (name or "").lower() not in ACTING
    )
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
