"""A PostgreSQL server for tests, with a table of events."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

PASSWORD = "s3cret:/word"
ROWS = [
    (-7, "x", 5.0, "2020-01-01 10:00:00.75+00"),
    (10**15, "y", 1.0, "2020-01-01 10:00:00.25+00"),
    (-7, "007", 3.5, "2020-01-01 12:00:00+02"),
    (-7, 'a,"b"\nc', 2.0, "2019-12-31 00:00:00+00"),
]
"""User, item, rating and time."""


def postgres_folder() -> Path | None:
    """Return the folder of the server's programs; Debian keeps them off the path."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders else None


@contextmanager
def running_server() -> Iterator[str]:
    """Start a server that asks for a password, in a folder that goes with it; yield its URL."""
    import psycopg

    programs = postgres_folder()
    assert programs is not None
    as_user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="whence-postgres-"))
    if as_user:
        shutil.chown(folder, as_user)
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    initdb: list[str | Path] = [
        programs / "initdb", "-D", folder / "data", "-U", "owner", "-A", "scram-sha-256",
        "--pwfile", folder / "password", "-E", "UTF8", "--locale", "C",
    ]  # fmt: skip
    subprocess.run(initdb, check=True, capture_output=True, user=as_user, cwd="/")
    control: list[str | Path] = [programs / "pg_ctl", "-D", folder / "data", "-w"]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder} -c fsync=off"
    start = [*control, "-l", folder / "log", "-o", options, "start"]
    subprocess.run(start, check=True, stdout=subprocess.DEVNULL, user=as_user, cwd="/")
    url = f"postgresql://owner:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/postgres"
    try:
        with psycopg.connect(url) as base:
            base.execute(
                "CREATE TABLE events (who bigint, what text, stars numeric(3,1), at timestamptz)"
            )
            base.cursor().executemany("INSERT INTO events VALUES (%s, %s, %s, %s)", ROWS)
        yield url
    finally:
        stop = [*control, "-m", "immediate", "stop"]
        subprocess.run(stop, check=True, stdout=subprocess.DEVNULL, user=as_user, cwd="/")
        shutil.rmtree(folder, ignore_errors=True)
