"""The result of a query on a database, by the URL of the database."""

from __future__ import annotations

from whence.data.addresses import (
    SQLITE,
    parse_server,
    scheme_of,
    sqlite_path,
    without_password,
)
from whence.data.readers.postgres import PostgresQuery
from whence.data.readers.query import Query
from whence.data.readers.sql_text import without_semicolon
from whence.data.readers.sqlite import SqliteQuery
from whence.data.readers.tabular import ReadOptions
from whence.errors import InputError


def is_database_url(source: str) -> bool:
    """Return whether this is the URL of a supported database."""
    return scheme_of(source) is not None


def open_query(url: str, reading: ReadOptions) -> Query:
    """Return the result of the query as a table."""
    address, query = without_password(url), reading.query or ""
    if not query.strip():
        raise InputError(f"{address} is a database. Select the events with --query 'SELECT …'.")
    if "\0" in query:
        raise InputError(f"The query on {address} contains a NUL character. Remove it.")
    if scheme_of(url) == SQLITE:
        return SqliteQuery(address, query, sqlite_path(url))
    return PostgresQuery(
        address, without_semicolon(query, PostgresQuery.grammar), parse_server(url)
    )
