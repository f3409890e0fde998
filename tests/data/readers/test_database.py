"""Queries on a SQLite file and on a real PostgreSQL server."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from postgres import PASSWORD, ROWS
from whence.data import ReadOptions, load
from whence.data.origins import reload
from whence.errors import InputError

QUERY = "SELECT who, what, stars, at FROM events;"
COLUMNS = ReadOptions(user="who", item="what", rating="stars", time="at", query=QUERY)


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    path = tmp_path / "shop %.db"
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE events (who INTEGER, what TEXT, stars REAL, at TEXT)")
        base.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", ROWS)
    base.close()
    return f"sqlite:///{quote(str(path))}"


def check_rows(url: str) -> None:
    data = load(url, COLUMNS)
    assert data.users["user"].to_pylist() == [-7, 10**15]
    assert data.catalog.raw_ids(data.history(0)) == ['a,"b"\nc', "007", "x"]
    assert data.catalog.raw_ids(data.history(1)) == ["y"]
    assert data.times is not None
    assert data.times.tolist() == [1577750400, 1577872800, 1577872800, 1577872800]
    assert data.ratings is not None
    assert data.ratings.tolist() == [2, 3.5, 5, 1]


def test_sqlite(sqlite: str) -> None:
    check_rows(sqlite)


def test_sqlite_data_can_be_read_again(sqlite: str) -> None:
    data = load(sqlite, COLUMNS)
    assert reload(data.origin).content_hash == data.content_hash


def test_sqlite_is_not_written_to(sqlite: str) -> None:
    with pytest.raises(InputError, match="readonly|read-only|no rows"):
        load(sqlite, ReadOptions(query="DELETE FROM events"))
    assert len(load(sqlite, COLUMNS)) == 4


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        (None, "is a database. Select the events with --query"),
        (" ", "is a database. Select the events with --query"),
        ("SELECT stranger FROM events", "failed: no such column: stranger. Check the URL"),
        ("SELECT who FROM events", "which column is the user"),
        ("CREATE TABLE more (x)", "failed|no rows"),
        (
            "SELECT who AS user, what AS item, row_number() OVER (ORDER BY at) AS n FROM events",
            "no time, and its rows have no order",
        ),
        (
            "SELECT who AS user, what AS item FROM events",
            "no time, and its rows have no order. .*ORDER BY",
        ),
        ("SELECT who AS user, what AS item FROM events WHERE who = 3 ORDER BY at", "has no rows"),
        (
            "SELECT who AS user, what AS item, CASE stars WHEN 1.0 THEN 'a' ELSE stars END AS "
            "rating, at AS time FROM events",
            "row 2, column 'rating': 'a' has another type",
        ),
        (
            "SELECT who AS user, what AS item, at AS time, at AS time FROM events",
            "two columns 'time'",
        ),
        (
            "SELECT who AS user, CASE stars WHEN 1.0 THEN NULL ELSE what END AS item, at AS time "
            "FROM events",
            "row 2, column 'item': the value is missing",
        ),
    ],
)
def test_bad_queries_give_a_clear_error(sqlite: str, query: str | None, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load(sqlite, ReadOptions(query=query))


def test_bad_sqlite_files_give_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no SQLite file 'absent.db'"):
        load("sqlite:///absent.db", ReadOptions(query="SELECT 1"))
    (tmp_path / "text.db").write_text("not a database at all, but long enough to be looked at" * 9)
    with pytest.raises(InputError, match="file is not a database"):
        load(f"sqlite:///{tmp_path}/text.db", ReadOptions(query="SELECT * FROM events"))


def test_ids_of_several_kinds_are_texts(sqlite: str) -> None:
    user = "CASE stars WHEN 5.0 THEN 'a' ELSE who END"
    query = f"SELECT {user} AS user, what AS item, at AS time FROM events"
    found = load(sqlite, ReadOptions(query=query)).users["user"].to_pylist()
    assert found == ["a", str(10**15), "-7"]


def test_rows_in_a_given_order_need_no_time(sqlite: str) -> None:
    query = "SELECT who AS user, what AS item FROM events ORDER BY stars DESC"
    data = load(sqlite, ReadOptions(query=query))
    assert data.catalog.raw_ids(data.history(0)) == ["x", "007", 'a,"b"\nc']


@pytest.mark.needs("postgres")
def test_postgres(postgres: str) -> None:
    check_rows(postgres)


@pytest.mark.needs("postgres")
def test_postgres_rows_of_more_than_one_block(postgres: str) -> None:
    query = (
        "SELECT n % 1000 AS user_id, 'item ' || n % 77 AS item_id, n AS ts "
        "FROM generate_series(1, 200000) AS n -- a comment"
    )
    data = load(postgres, ReadOptions(query=query))
    assert (len(data), data.user_count, data.item_count) == (200_000, 1_000, 77)
    assert data.times is not None
    assert (data.times[data.offsets[:-1]] <= 1_000).all()


@pytest.mark.needs("postgres")
def test_the_urls_own_options_hold(postgres: str) -> None:
    with psycopg.connect(postgres) as base:
        base.execute("CREATE SCHEMA shop")
        base.execute("CREATE TABLE shop.sold AS SELECT 1 AS buyer, 'x' AS sku, 5 AS at")
    url = f"{postgres}?options=-csearch_path%3Dshop"
    assert len(load(url, ReadOptions(query="SELECT * FROM sold"))) == 1


@pytest.mark.needs("postgres")
def test_the_password_is_never_stored_or_said(
    postgres: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = load(postgres, COLUMNS)
    stored = str(dict(data.origin)) + (data.save(tmp_path / "p") / "manifest.json").read_text()
    assert "s3cret" not in stored
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert reload(data.origin).content_hash == data.content_hash
    monkeypatch.setenv("PGPASSWORD", "wrong")
    with pytest.raises(InputError, match="password authentication failed"):
        reload(data.origin)


@pytest.mark.needs("postgres")
@pytest.mark.parametrize(
    ("change", "query", "sentence"),
    [
        (("s3cret", "wrong"), QUERY, "password authentication failed for user .owner."),
        (("/postgres", "/absent"), QUERY, 'database "absent" does not exist'),
        (("", ""), "SELECT nothing FROM events", 'column "nothing" does not exist'),
        (("", ""), "DELETE FROM events", "syntax error"),
        (
            ("", ""),
            "WITH x AS (DELETE FROM events RETURNING *) SELECT * FROM x",
            "failed: the query must not contain data-modifying statements in WITH",
        ),
        (("", ""), "SELECT 1 AS user, 2 AS user", "two columns 'user'"),
        (("", ""), "SELECT 1/0 AS user, 2 AS item, 3 AS time", "division by zero"),
        (
            ("", ""),
            "SELECT 1 AS user, NULL AS item, 3 AS time",
            "row 1, column 'item'.*value is missing",
        ),
        (("", ""), "SELECT 1 AS user, 2 AS item, 'soon' AS time", "row 1, column 'time': 'soon'"),
    ],
)
def test_wrong_urls_and_queries_give_a_clear_error(
    postgres: str, change: tuple[str, str], query: str, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        load(postgres.replace(*change) if change[0] else postgres, ReadOptions(query=query))
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(load(postgres, COLUMNS)) == 4


def test_a_dead_server_gives_a_clear_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"postgresql://me:s3cret@127.0.0.1:{port}/db"
    with pytest.raises(InputError, match="failed: .*refused.*Check the URL") as caught:
        load(url, ReadOptions(query="SELECT 1"))
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret@[::1/db",
        "postgresql://me:s3cret@host:notaport/db",
        "postgresql://me:s3cret%zz@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?user=me&password=s3cret%zz",
        "postgresql://me:s3cret",
        "postgres://",
    ],
)
def test_a_wrong_url_gives_a_clear_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.setenv("PGPORT", "1")
    with pytest.raises(InputError) as caught:
        load(url, ReadOptions(query="SELECT 1"))
    assert "s3cret" not in str(caught.value)


def test_without_the_driver_one_sentence_says_how_to_get_it(tmp_path: Path) -> None:
    """In a process in which the package cannot be imported, so that no URL can be parsed."""
    (tmp_path / "psycopg.py").write_text("raise ImportError\n")
    code = (
        "import whence\n"
        "for query in (None, 'SELECT 1'):\n"
        "    try:\n"
        "        whence.load('postgresql://me:s3cret@h/db', whence.ReadOptions(query=query))\n"
        "    except whence.InputError as problem:\n"
        "        print(problem)\n"
    )
    places = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    without_query, without_driver = done.stdout.splitlines()
    assert without_query.startswith("postgresql://… is a database. Select the events")
    assert "pip install 'whence[postgres]'" in without_driver


def test_dates_that_cannot_be_read_are_said(sqlite: str) -> None:
    query = "SELECT who, what, '5.1.2024' AS bought FROM events ORDER BY rowid"
    with pytest.warns(UserWarning, match="'bought' seems to hold dates, but in row 1 '5.1.2024'"):
        load(sqlite, ReadOptions(user="who", item="what", query=query))


@pytest.mark.needs("postgres")
def test_dates_in_a_column_of_any_name_are_the_time(postgres: str) -> None:
    query = "SELECT who, what, at AS bought FROM events"
    found = load(postgres, ReadOptions(user="who", item="what", query=query))
    assert found.times is not None
