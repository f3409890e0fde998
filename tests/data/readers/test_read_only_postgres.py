"""Queries that try to write, on a real PostgreSQL server, as the owner who may do anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from whence.data import ReadOptions, load
from whence.errors import InputError

COLUMNS = "who AS user, what AS item, at AS time"
EVENTS = f"SELECT {COLUMNS} FROM events"
ONE = "SELECT 1 AS user, 2 AS item, 3 AS time"
STATE = {
    "tables": "SELECT oid, relname, relnamespace, relowner, relacl::text FROM pg_class",
    "functions": "SELECT oid, proname FROM pg_proc",
    "roles": "SELECT * FROM pg_authid",
    "databases": "SELECT oid, datname FROM pg_database",
    "schemas": "SELECT oid, nspname, nspowner FROM pg_namespace",
    "settings": "SELECT setdatabase, setrole, setconfig FROM pg_db_role_setting",
    "large objects": "SELECT oid FROM pg_largeobject_metadata",
    "extensions": "SELECT extname FROM pg_extension",
    "configuration": "SELECT sourcefile, name, setting FROM pg_file_settings",
    "events": "SELECT ctid, xmin, xmax, * FROM events",
    "counter": "SELECT * FROM counter",
}
"""What no query may change; `xmax` shows locks of rows."""
SEVERAL_STATEMENTS = [
    "SELECT 1; DROP TABLE events",
    f"{EVENTS}; DROP TABLE events",
    f"{EVENTS}; DROP TABLE events; --",
    f"{EVENTS};;DELETE FROM events",
    f"{EVENTS}; COMMIT; DROP TABLE events",
    f"{EVENTS} /* ; */ ; DROP TABLE events",
    f"DROP TABLE events; {EVENTS}",
    f"COMMIT; DROP TABLE events; {EVENTS}",
    f"ROLLBACK; DELETE FROM events; {EVENTS}",
    f"SET TRANSACTION READ WRITE; {EVENTS}",
    f"SET default_transaction_read_only = off; {EVENTS}",
    f"{EVENTS}; COMMIT; BEGIN READ WRITE; DROP TABLE events; COMMIT",
    "SELECT 'a'';'; DROP TABLE events; --'",
    "SELECT $$a$$; DROP TABLE events; --$$",
    "SELECT E'\\'; DROP TABLE events; --'; DROP TABLE events",
    "SELECT 1 --\r; DROP TABLE events",
]
OUT_OF_PARENTHESES = [
    "SELECT 1) TO STDOUT; DROP TABLE events; --",
    "SELECT 1) TO STDOUT; DROP TABLE events; COPY (SELECT 1",
    "SELECT 1) TO PROGRAM 'touch {file}'; --",
    "SELECT 1) TO PROGRAM 'touch {file}' --",
    "SELECT 1) TO PROGRAM 'touch {file}' /*",
    "SELECT 1) TO '{file}' --",
    "SELECT 1) AS events; DROP TABLE events; --",
    "SELECT 1) AS x; DROP TABLE events; SELECT * FROM (SELECT 1",
    "SELECT 1) AS x; COMMIT; DELETE FROM events; SELECT * FROM (SELECT 1",
    "SELECT 1) AS x; COMMIT; BEGIN READ WRITE; CREATE ROLE me; COMMIT; SELECT * FROM (SELECT 1",
    "SELECT 1) AS x; COPY (SELECT 1) TO PROGRAM 'touch {file}'; SELECT * FROM (SELECT 1",
    "SELECT 1) AS x; COPY (SELECT 1) TO '{file}'; SELECT * FROM (SELECT 1",
    "SELECT 1) TO STDOUT; COMMIT; DELETE FROM events; COPY (SELECT 1",
    "SELECT 1) /*",
]
NO_SELECT = [
    "DROP TABLE events",
    "TRUNCATE events",
    "DELETE FROM events",
    "DELETE FROM events RETURNING who AS user, what AS item, at AS time",
    "UPDATE events SET stars = 0 RETURNING who AS user, what AS item, at AS time",
    "INSERT INTO events SELECT * FROM events RETURNING who AS user, what AS item, at AS time",
    "MERGE INTO events USING (SELECT 1) AS x ON true WHEN MATCHED THEN DELETE",
    "COPY events TO PROGRAM 'touch {file}'",
    "COPY (SELECT 1) TO PROGRAM 'touch {file}'",
    "COPY (SELECT 1) TO '{file}'",
    "COPY events TO STDOUT",
    "COPY events FROM STDIN",
    "CREATE TABLE stolen AS SELECT * FROM events",
    "CREATE TEMP TABLE stolen AS SELECT * FROM events",
    "CREATE ROLE intruder SUPERUSER",
    "ALTER ROLE owner PASSWORD 'changed'",
    "ALTER SYSTEM SET work_mem = '1MB'",
    "GRANT ALL ON events TO PUBLIC",
    "DO $$ BEGIN EXECUTE 'DROP TABLE events'; END $$",
    "CALL work()",
    "EXPLAIN ANALYZE DELETE FROM events",
    "EXECUTE something",
    "PREPARE x AS DELETE FROM events",
    "DECLARE c CURSOR FOR SELECT 1",
    "LISTEN x",
    "LOCK TABLE events",
    "VACUUM events",
    "REINDEX TABLE events",
    "CHECKPOINT",
    "LOAD 'auto_explain'",
    "COMMIT",
    "ROLLBACK",
    "SET TRANSACTION READ WRITE",
    "SHOW ALL",
    ";",
    "-- nothing",
]
SELECTS_THAT_WRITE = [
    f"SELECT {COLUMNS} INTO stolen FROM events",
    f"SELECT {COLUMNS} INTO TEMP stolen FROM events",
    "WITH x AS (DELETE FROM events RETURNING *) SELECT * FROM x",
    f"WITH x AS (UPDATE events SET stars = 0 RETURNING *) {EVENTS}",
    f"WITH x AS (INSERT INTO events SELECT * FROM events RETURNING 1) {EVENTS}",
    f"{EVENTS} FOR UPDATE",
    f"{EVENTS} FOR SHARE",
    "SELECT nextval('counter') AS user, 2 AS item, 3 AS time",
    "SELECT setval('counter', 99) AS user, 2 AS item, 3 AS time",
    "SELECT purge() AS user, 2 AS item, 3 AS time",
    "SELECT set_config('transaction_read_only', 'off', false) AS user, purge() AS item, 3 AS time",
    "SELECT query_to_xml('DELETE FROM events', true, true, '')::text AS user, 2 AS item, 3 AS time",
    "SELECT query_to_xml('COPY events TO PROGRAM ''touch {file}''', true, true, '')::text AS user, "
    "2 AS item, 3 AS time",
    "SELECT $1 AS user, 2 AS item, 3 AS time",
]
ALLOWED = [
    "SELECT lo_create(0) AS user, 2 AS item, 3 AS time",
    "SELECT lo_from_bytea(0, 'x') AS user, 2 AS item, 3 AS time",
    "SELECT set_config('default_transaction_read_only', 'off', false) AS user, 2 item, 3 AS time",
    "SELECT 'a' || pg_notify('x', 'y')::text AS user, 2 AS item, 3 AS time",
]
"""Some versions of PostgreSQL allow all of them in a transaction that is read-only."""
VALID = [
    ONE,
    f"{ONE};",
    f"{ONE} ; ; ",
    f"  \n{ONE}\n;\n-- done; DROP TABLE events",
    f"{ONE} -- a comment",
    f"{ONE} --",
    f"/* a; /* nested; */ comment */ {ONE} /* ; */;",
    f"({ONE})",
    f"(({ONE}) LIMIT 1)",
    f"{ONE} ORDER BY 1, 2 LIMIT 1 OFFSET 0",
    f"WITH x AS ({ONE}) SELECT * FROM x",
    "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 1) "
    'SELECT n AS user, 2 AS item, 3 AS "time" FROM x',
    "TABLE one -- a table",
    'SELECT * FROM (VALUES (1, 2, 3)) AS v("user", item, "time")',
    f"{ONE} UNION {ONE} ORDER BY 1",
    f"{ONE} WHERE ';' <> ')' AND '--' <> '/*'",
    f"{ONE} WHERE $$;)'$$ <> $x$ $$ DROP TABLE events; $x$",
    f"{ONE} WHERE E'\\';)' <> '''' AND U&'\\0041' = 'A'",
    f"{ONE} WHERE '%' <> '%s' AND 5 % 2 = 1",
    'SELECT 1 AS "user", 2 AS "item", 3 AS "time", 4 AS "a;)--""b"',
    f"{ONE}, (SELECT count(*) FROM events) AS n",
    f"{ONE}, 'é\U0001f600' AS title",
    "SELECT DISTINCT 1 AS user, 2 AS item, 3 AS time FROM events WHERE stars > all(array[0, -1])",
    "SELECT 1 AS user, 2 AS item -- in order\nORDER BY 1",
]


@pytest.fixture(scope="module")
def shop(postgres: str) -> str:
    """The server, with more to destroy."""
    with psycopg.connect(postgres) as base:
        base.execute("CREATE SEQUENCE counter")
        base.execute(f"CREATE TABLE one AS {ONE}".encode())
        base.execute("CREATE PROCEDURE work() LANGUAGE sql AS 'DELETE FROM events'")
        base.execute(
            "CREATE FUNCTION purge() RETURNS bigint LANGUAGE sql AS "
            "'DELETE FROM events; SELECT count(*) FROM events'"
        )
    return postgres


def state_of(url: str) -> dict[str, list[Any]]:
    with psycopg.connect(url) as base:
        return {
            name: sorted(base.execute(query.encode()), key=repr) for name, query in STATE.items()
        }


@pytest.fixture
def unchanged(shop: str, tmp_path: Path) -> Callable[[], None]:
    """Compares the server and the folder with what they were before the test."""
    tmp_path.chmod(0o777)
    before = state_of(shop)

    def check() -> None:
        after = state_of(shop)
        assert [name for name in STATE if before[name] != after[name]] == []
        assert list(tmp_path.iterdir()) == []

    return check


@pytest.mark.needs("postgres")
@pytest.mark.parametrize("option", ["", "?options=-c%20default_transaction_read_only%3Doff"])
@pytest.mark.parametrize(
    "queries", [SEVERAL_STATEMENTS, OUT_OF_PARENTHESES, NO_SELECT, SELECTS_THAT_WRITE]
)
def test_queries_that_write_fail_and_change_nothing(
    shop: str, queries: list[str], option: str, tmp_path: Path, unchanged: Callable[[], None]
) -> None:
    for query in queries:
        hostile = query.replace("{file}", str(tmp_path / "file"))
        with pytest.raises(InputError, match="^The query on .* failed: .*Check the URL and"):
            load(f"{shop}{option}", ReadOptions(query=hostile))
    unchanged()


@pytest.mark.needs("postgres")
def test_what_a_read_only_transaction_allows_is_undone(
    shop: str, unchanged: Callable[[], None]
) -> None:
    for query in ALLOWED:
        try:
            load(shop, ReadOptions(query=query))
        except InputError as problem:
            assert "read-only" in str(problem), query
    unchanged()


@pytest.mark.needs("postgres")
def test_valid_queries_of_every_shape(shop: str, unchanged: Callable[[], None]) -> None:
    for query in VALID:
        data = load(shop, ReadOptions(query=query))
        assert data.users["user"].to_pylist() == [1], query
        assert data.catalog.raw_ids(data.items) == [2], query
    unchanged()


@pytest.mark.needs("postgres")
def test_a_nul_character_gives_a_clear_error(shop: str) -> None:
    with pytest.raises(InputError, match="NUL character"):
        load(shop, ReadOptions(query=f"{ONE}\0; DROP TABLE events"))


@pytest.mark.needs("postgres")
@pytest.mark.parametrize("scheme", ["postgres", "POSTGRESQL", "postgresql+psycopg2", "Postgres+x"])
def test_every_spelling_of_the_scheme(shop: str, scheme: str) -> None:
    data = load(shop.replace("postgresql", scheme, 1), ReadOptions(query=ONE))
    assert data.origin["source"].startswith("postgresql://owner@127.0.0.1:")
