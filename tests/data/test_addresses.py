"""Passwords in addresses are never shown or stored, wherever they stand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bounded import bounded
from command_line import whence
from whence.data import ReadOptions, load
from whence.data.addresses import (
    Server,
    is_web_address,
    looks_like_address,
    parse_server,
    public_url,
    without_password,
)
from whence.data.download import download
from whence.data.origins import reload
from whence.errors import InputError

HIDDEN = "postgresql://…"
PRINTABLE = st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_categories=["C", "Z"])
START, END = "Zq7", "8Xw"
PASSWORDS = st.text(PRINTABLE, max_size=15).map(lambda text: f"{START}{text}{END}")
"""Marked, so that a part of one is found as well, and not taken for another word."""
NAMES = st.text(PRINTABLE, min_size=1, max_size=8).filter(lambda name: not set(name) & set(":/@="))
HOSTS = st.sampled_from(["127.0.0.1", "[::1]", "localhost"])
SCHEMES = st.sampled_from(["postgresql", "postgres", "PostgreSQL", "postgresql+psycopg2"])
PARAMETERS = st.dictionaries(
    st.sampled_from(["sslmode", "application_name", "options", "passfile", "target_session_attrs"]),
    st.sampled_from(["any", "prefer", "-csearch_path=shop", "/x/y", "a&b=c %"]),
    max_size=2,
)
LOGINS: dict[str, Callable[[str], tuple[str, str]]] = {
    "in the login": lambda password: (f":{quote(password, safe='')}", ""),
    "as a parameter": lambda password: ("", f"password={quote(password, safe='')}"),
    "of a key": lambda password: ("", f"sslpassword={quote(password, safe='')}"),
    "in the options": lambda password: ("", f"options=-cx.password%3D{quote(password, safe='')}"),
}
"""Where a password may stand: after the user name, and among the parameters."""


@st.composite
def urls(draw: st.DrawFn) -> str:
    """Return a URL with a password that libpq accepts, of a port where nobody listens."""
    password, user, name = draw(PASSWORDS), draw(NAMES), draw(NAMES)
    login, secret = LOGINS[draw(st.sampled_from(sorted(LOGINS)))](password)
    parameters = [f"{key}={quote(value, safe='')}" for key, value in draw(PARAMETERS).items()]
    query = "&".join([*parameters, secret]) if secret else "&".join(parameters)
    url = f"{draw(SCHEMES)}://{quote(user, safe='')}{login}@{draw(HOSTS)}:1/{quote(name)}"
    return f"{url}?{query}" if query else url


def is_clean(text: str) -> bool:
    return not any(mark.lower() in text.lower() for mark in (START, END))


@given(urls())
def test_a_url_is_shown_and_stored_without_its_password(url: str) -> None:
    shown, server = without_password(url), parse_server(url)
    assert shown != HIDDEN
    assert is_clean(shown)
    assert is_clean(repr(server))
    again = parse_server(shown)
    assert dict(again.parts) == dict(server.parts), "it leads to the same database"
    assert not again.secrets
    assert without_password(shown) == shown


@given(urls())
def test_a_failed_connection_is_reported_without_the_password(url: str) -> None:
    with pytest.raises(InputError) as caught:
        load(url, ReadOptions(query="SELECT 1"))
    assert is_clean(str(caught.value))


@given(PASSWORDS, st.sampled_from([":", "%3A"]), st.sampled_from(["@", "%40", "/"]), st.booleans())
def test_a_url_that_is_not_encoded_leads_nowhere_or_hides_its_password(
    password: str, colon: str, at: str, as_parameter: bool
) -> None:
    """Even if a part of the password would be taken for the host."""
    url = f"postgresql://me{colon}{password}{at}127.0.0.1:1/db"
    if as_parameter:
        url = f"postgresql://127.0.0.1:1/db?user=me{at}&Password={password}"
    with pytest.raises(InputError) as caught:
        load(url, ReadOptions(query="SELECT 1"))
    assert is_clean(str(caught.value))
    assert is_clean(without_password(url))


UNSUPPORTED = [
    "mysql://me:{}@host/db",
    "MySQL+pymysql://me:{}@host/db",
    "sqlite+pysqlcipher://:{}@/shop.db",
    "sqlite://me:{}@host/shop.db",
    "sqlite:///shop.db?key={}",
    "jdbc:postgresql://host/db?user=me&password={}",
    "postgresq://me:{}@host/db",
    "postgres:/me:{}@host",
    "postgresql:me:{}",
    "postgresql//me:{}@host/db",
    "postgresql%3A%2F%2Fme%3A{}%40host",
    "http://me:{}@host/x.csv",
    "https://host/x.csv?token={}",
    "host=h password={}",
    "host=h PASSWORD = '{}'",
    "host=h pasword={} dbname=d",
    "me:{}@host",
    "Server=h;Uid=me;Pwd={}",
]


@pytest.mark.parametrize("written", UNSUPPORTED)
@pytest.mark.parametrize("query", [None, "SELECT 1"])
@given(password=PASSWORDS)
def test_other_addresses_are_reported_without_the_password(
    written: str, query: str | None, password: str
) -> None:
    for form in (password, quote(password, safe="")):
        address = written.format(form)
        with pytest.raises(InputError) as caught:
            load(address, ReadOptions(query=query))
        assert is_clean(str(caught.value))
        with pytest.raises(InputError) as caught:
            reload({"source": address})
        assert is_clean(str(caught.value))


@pytest.mark.parametrize("written", [*UNSUPPORTED, "postgresql://me:{}@127.0.0.1:1/db"])
def test_no_command_prints_the_password(written: str, tmp_path: Path) -> None:
    address = written.format("s3cretword")
    (tmp_path / "a.csv").write_text("user,item\n1,2\n")
    for command in (
        ("data", "stats", address),
        ("data", "stats", address, "--query", "SELECT 1"),
        ("data", "stats", tmp_path / "a.csv", "--items", address),
        ("data", "get", address),
        ("train", address * 300, "--out", tmp_path / "run"),
    ):
        done = whence(*command)
        assert done.returncode == 2, done
        assert "s3cretword" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:pw@host:5432/db", "postgresql://me@host:5432/db"),
        ("postgres://me:pw@host", "postgresql://me@host"),
        ("postgresql+psycopg2://me:pw@host/db", "postgresql://me@host/db"),
        (
            "postgresql://me:p%40w@host/db?sslmode=require",
            "postgresql://me@host/db?sslmode=require",
        ),
        ("postgresql://host/db?user=me&password=pw", "postgresql://me@host/db"),
        ("postgresql://me%40azure:p#w@host/db", "postgresql://me%40azure@host/db"),
        ("postgresql://h/db?password=pw&sslmode=require", "postgresql://h/db?sslmode=require"),
        ("postgresql://me:pw@[::1]:5433/db", "postgresql://me@[::1]:5433/db"),
        ("postgresql://me:pw@/db?host=/run/pg", "postgresql://me@/db?host=%2Frun%2Fpg"),
        (
            "postgresql://a:1,b:2/db?passfile=/x",
            "postgresql:///db?passfile=%2Fx&host=a%2Cb&port=1%2C2",
        ),
        ("postgresql://host:5432", "postgresql://host:5432"),
        ("postgresql://", "postgresql://"),
        ("sqlite:///shop.db", "sqlite:///shop.db"),
        ("sqlite:///a b%20c.db", "sqlite:///a b%20c.db"),
        ("sqlite://me:pw@host/shop.db", "sqlite:///…"),
    ],
)
def test_urls_are_shown_without_the_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:pw",
        "postgresql://me:1234567",
        "postgresql://me:s@cret@[::1/db",
        "postgresql://me:a:b@c@host/db",
        "postgresql://me@server:pw@host/db",
        "postgresql://me:12/34@host/db",
        "postgresql://me:12?34@host/db",
        "postgresql://host?password=p@w",
        "postgresql://me%3Apw@host/db",
        "postgresql://me%3Apw%40host/db",
        "postgresql:///me%3Apw%40host",
        "postgresql:///password%3Dpw",
        "postgresql://h/db?PASSWORD=pw",
        "postgresql://me:%zz@h/db",
        "postgresql://me:%ff@h/db",
        "postgresql://me:\udcff@h/db",
        "postgresql://h:x/db",
    ],
)
def test_what_may_be_a_password_in_the_wrong_place_is_hidden(url: str) -> None:
    assert without_password(url) == HIDDEN
    with pytest.raises(InputError, match="PostgreSQL URL is not valid. Write postgresql://user"):
        load(url, ReadOptions(query="SELECT 1"))


def test_a_url_cannot_make_the_driver_write_a_file(tmp_path: Path) -> None:
    url = f"postgresql://127.0.0.1:1/db?sslkeylogfile={tmp_path}/keys"
    with pytest.raises(InputError, match="sslkeylogfile|URL is not valid"):
        load(url, ReadOptions(query="SELECT 1"))


def test_messages_of_the_server_are_cleaned() -> None:
    server = Server({"user": "me"}, {"password": "a b%/", "sslpassword": "a b"})
    said = server.cleaned("wrong: a b%/ or a%20b%25/ or a%20b%25%2F or a b, for me")
    assert said == "wrong: *** or *** or *** or ***, for me"


@pytest.mark.needs("postgres")
def test_runs_and_prepared_folders_hold_no_password(postgres: str, tmp_path: Path) -> None:
    url = f"{postgres}?options=-c%20x.password%3Dsecond"
    rows = "SELECT n % 9 AS user, n % 7 AS item, n AS time FROM generate_series(1, 90) AS n"
    done = whence(
        "train", url, "--query", rows, "--out", tmp_path / "run", "--set", "steps=2,dim=8"
    )
    assert done.returncode == 0, done.stderr
    done = whence("data", "prepare", url, "--query", rows, "--out", tmp_path / "prepared")
    assert done.returncode == 0, done.stderr
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"run.json", "manifest.json"} <= {path.name for path in kept}
    for path in kept:
        assert b"s3cret" not in path.read_bytes(), path
        assert b"second" not in path.read_bytes(), path
    origin = json.loads((tmp_path / "run" / "run.json").read_text())["data"]["origin"]
    assert origin["source"].startswith("postgresql://owner@127.0.0.1:")


@pytest.mark.parametrize("text", ["shop.csv", "C:\\shop.csv", "a/b.csv", "ml-1m", "a b?c#d"])
def test_names_of_files_are_no_addresses(text: str) -> None:
    assert not looks_like_address(text)


WEB = st.fixed_dictionaries(
    {
        "scheme": st.sampled_from(["http", "https", "HTTPS", "ftp"]),
        "host": st.sampled_from(["host.org", "127.0.0.1:8000", "[::1]:80", "h:x", "[::"]),
        "path": st.sampled_from(["", "/", "/a/b.zip", "/a@b/c"]),
    }
)


@given(WEB, PASSWORDS, st.sampled_from(["login", "token", "key", "fragment"]), st.booleans())
def test_web_addresses_are_shown_without_secrets(
    parts: Mapping[str, Any], password: str, place: str, encoded: bool
) -> None:
    secret = quote(password, safe="") if encoded else password
    start = f"{parts['scheme']}://"
    url = {
        "login": f"{start}me:{secret}@{parts['host']}{parts['path']}",
        "fragment": f"{start}{parts['host']}{parts['path']}#{secret}",
    }.get(place, f"{start}{parts['host']}{parts['path']}?{place}={secret}&b=1")
    assert is_clean(public_url(url))
    if place == "login":
        assert not is_web_address(url)
        with pytest.raises(InputError, match="is not a download address") as caught:
            download(url, Path("never"), 1, None, (), show_progress=False)
        assert is_clean(str(caught.value))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://files.org/a/b.zip", "https://files.org/a/b.zip"),
        ("https://me:pw@files.org:81/b.zip", "https://files.org:81/b.zip"),
        ("https://me:p@w@files.org/b.zip", "https://files.org/b.zip"),
        ("https://files.org/b.zip?token=pw&x=1#y", "https://files.org/b.zip?…"),
        ("https://me:12/34@files.org/b.zip", "https://…"),
        ("https://me:p/w@files.org/b.zip", "https://…"),
        ("http://[::1]:81/x", "http://[::1]:81/x"),
        ("http://[/x", "http://…"),
        ("me:pw@files.org", "…"),
    ],
)
def test_how_a_web_address_is_shown(url: str, shown: str) -> None:
    assert public_url(url) == shown


@pytest.mark.parametrize(
    "piece", [":", "@", "/", "?", "%", "%40", "&a=", "=", "password=", "[", "+"]
)
def test_long_addresses_take_linear_time(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    with bounded():
        for scheme in ("", "postgresql://", "sqlite:///", "https://"):
            looks_like_address(scheme + text)
            without_password(scheme + text)
            public_url(scheme + text)
            is_web_address(scheme + text)
