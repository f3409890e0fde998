"""Queries that try to write or to exhaust, on SQLite files that may be hostile themselves."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from whence.data import ReadOptions, load
from whence.errors import InputError

EVENTS = "SELECT who AS user, what AS item, at AS time FROM events"
ONE = "SELECT 1 AS user, 2 AS item, 3 AS time"
VIEWS = {
    "reaching": "SELECT load_extension('x') AS user, 2 AS item",
    "huge": "SELECT 1 AS user, zeroblob(1000000000) AS item",
    "circular": "SELECT * FROM circular",
    "endless": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT 1 FROM n) "
    "SELECT count(*) AS user, 2 AS item FROM n",
}
WRITING = [
    "DELETE FROM events",
    "DELETE FROM events RETURNING who AS user, what AS item, at AS time",
    "INSERT INTO events SELECT * FROM events",
    "UPDATE events SET at = 0",
    "DROP TABLE events",
    "ALTER TABLE events RENAME TO gone",
    "CREATE TABLE more (x)",
    "CREATE TEMP TABLE more AS SELECT * FROM events",
    "CREATE TEMP VIEW more AS SELECT 1",
    "CREATE VIRTUAL TABLE temp.more USING fts5(x)",
    "CREATE INDEX i ON events (who)",
    "REINDEX events",
    "ANALYZE",
    "VACUUM",
    "VACUUM INTO '{file}'",
    "ATTACH '{file}' AS other",
    "ATTACH 'file:{file}?mode=rwc' AS other",
    "DETACH main",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA writable_schema = ON",
    "PRAGMA query_only = OFF",
    "PRAGMA user_version = 7",
    "PRAGMA table_info(events)",
    "SELECT * FROM pragma_table_info('events')",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT x",
    "SELECT load_extension('{file}') AS user, 2 AS item, 3 AS time",
    "SELECT LOAD_EXTENSION('{file}', 'x') AS user, 2 AS item, 3 AS time",
]
WRONG = [
    "SELECT fts3_tokenizer('simple', x'00') AS user, 2 AS item, 3 AS time",
    "SELECT writefile('{file}', 'x') AS user, 2 AS item, 3 AS time",
    "SELECT edit('x', 'touch {file}') AS user, 2 AS item, 3 AS time",
    f"{EVENTS}; DROP TABLE events",
    f"DROP TABLE events; {EVENTS}",
    ";",
    "-- nothing",
    "SELECT ? AS user, 2 AS item, 3 AS time",
    "SELECT '\udcff' AS user, 2 AS item, 3 AS time",
    "SELECT 1\0 AS user, 2 AS item, 3 AS time",
    "SELECT zeroblob(1000000000) AS user, 2 AS item, 3 AS time",
    "SELECT hex(zeroblob(60000000)) AS user, 2 AS item, 3 AS time",
    f"SELECT {'(' * 5_000}1{')' * 5_000} AS user, 2 AS item, 3 AS time",
    f"SELECT {'+' * 2_000_000}1 AS user, 2 AS item, 3 AS time",
    f"SELECT {'1+' * 50_000}1 AS user, 2 AS item, 3 AS time",
]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A database alone in its folder."""
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "shop.db"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE events (who, what, at)")
        made.executemany("INSERT INTO events VALUES (?, ?, ?)", [(1, 2, 3), (1, 4, 5)])
        for name, query in VIEWS.items():
            made.execute(f"CREATE VIEW {name} AS {query}")
    made.close()
    return path


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("queries", "sentence"), [(WRITING, "does more than read|returns no rows"), (WRONG, "query on")]
)
def test_queries_that_write_fail_and_change_nothing(
    base: Path, queries: list[str], sentence: str
) -> None:
    before = contents(base.parent)
    for query in queries:
        hostile = query.replace("{file}", str(base.parent / "file"))
        with pytest.raises(InputError, match=sentence):
            load(f"sqlite:///{base}", ReadOptions(query=hostile))
    assert contents(base.parent) == before


@pytest.mark.parametrize(
    ("view", "sentence"),
    [
        ("reaching", "unsafe use of load_extension|does more than read"),
        ("huge", "string or blob too big"),
        ("circular", "circular"),
    ],
)
def test_a_hostile_view_gives_a_clear_error(base: Path, view: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load(f"sqlite:///{base}", ReadOptions(query=f"SELECT * FROM {view} ORDER BY 1"))


@pytest.mark.parametrize(
    "query",
    [
        ONE,
        f"{ONE};",
        f"{ONE} -- done;",
        f"/* a; */ {ONE} /* ; */;",
        "VALUES (1, 2, 3)",
        "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 1) "
        "SELECT n, max(2, 1), 3 FROM x",
        f"{ONE} WHERE ';' <> ')' AND [user] <> `time`",
        "SELECT min(who), group_concat(what), count(*) OVER () FROM events",
        "SELECT json_extract('[1]', '$[0]'), 2, 3",
        "SELECT value, 2, 3 FROM json_each('[1]')",
    ],
)
def test_valid_queries_of_every_shape(base: Path, query: str) -> None:
    by_number = ReadOptions(user="1", item="2", time="3", query=query)
    assert len(load(f"sqlite:///{base}", by_number)) == 1


@pytest.mark.parametrize("name", ["a?mode=rwc.db", "a#b.db", "a%20b.db", "a b&c.db", "%41.db"])
def test_a_path_adds_no_parameters(base: Path, name: str) -> None:
    base = base.rename(base.with_name(name))
    options = ReadOptions(query=EVENTS)
    assert len(load(f"sqlite:///{base.parent}/{quote(name)}", options)) == 2
    for end in ("new.db?mode=rwc", "new.db%3Fmode=rwc", f"{quote(name)}?mode=rwc"):
        with pytest.raises(InputError, match="There is no SQLite file"):
            load(f"sqlite:///{base.parent}/{end}", options)
    assert [path.name for path in base.parent.iterdir()] == [name]


def test_a_name_that_is_too_long_gives_a_clear_error() -> None:
    with pytest.raises(InputError, match="There is no SQLite file"):
        load(f"sqlite:///{'x' * 5_000}", ReadOptions(query="SELECT 1"))


def test_an_endless_query_can_be_interrupted(base: Path) -> None:
    code = (
        "import whence\n"
        "print('ready', flush=True)\n"
        "query = whence.ReadOptions(query='SELECT * FROM endless ORDER BY 1')\n"
        f"whence.load('sqlite:///{base}', query)"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(1)
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert errors.strip().endswith(b"KeyboardInterrupt")
