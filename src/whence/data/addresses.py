"""Addresses that may hold a password, and what of them may be printed or stored.

What is shown is built from the parsed parts. An address that cannot be parsed is not shown.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlencode, urlsplit

from whence.errors import InputError
from whence.text import ELLIPSIS

SQLITE, POSTGRES = "sqlite", "postgresql"
SCHEMES = {SQLITE: SQLITE, POSTGRES: POSTGRES, "postgres": POSTGRES}
WEB = ("http", "https")
HIGHEST_PORT = 65_535
PLACE = ("user", "host", "port", "dbname")
UNMARKED_SECRETS = ("scram_client_key", "scram_server_key")
"""Secret parameters of a connection that libpq does not mark as such."""
HOST = re.compile(r"[\w.-]*|/[^@]*")
"""A name, or the folder of a socket."""


def scheme_of(address: str) -> str | None:
    """Return which database a URL is for: SQLITE, POSTGRES or none.

    SQLAlchemy's name of a driver, as in postgresql+psycopg://, makes no difference.
    """
    scheme, separator, _ = address.partition("://")
    database = SCHEMES.get(scheme.partition("+")[0].lower()) if separator else None
    return None if database == SQLITE and "+" in scheme else database


def looks_like_address(text: str) -> bool:
    """Return whether a text that names no file may be an address with a password, or its parts."""
    plain = unquote(text)
    # A colon in second place follows the letter of a drive.
    return any(mark in plain for mark in "@=") or ":" in plain[2:]


def public_name(text: str) -> str:
    """Return the name of a file as given, or an ellipsis if it may be an address."""
    return ELLIPSIS if looks_like_address(text) and not os.path.exists(text) else text  # noqa: PTH110


def public_url(url: str) -> str:
    """Return an address on the web without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return public_scheme(url)
    # An @ further on may be the end of a password with a slash, whose start looks like a port.
    if not host or "@" in f"{parts.path}{parts.query}{parts.fragment}":
        return public_scheme(url)
    place = f"[{host}]" if ":" in host else host
    place += "" if port is None else f":{port}"
    return f"{parts.scheme}://{place}{parts.path}{f'?{ELLIPSIS}' if parts.query else ''}"


def public_scheme(url: str) -> str:
    """Return no more than the scheme of an address."""
    found = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", url)
    return f"{found[0] if found else ''}{ELLIPSIS}"


def is_web_address(url: str) -> bool:
    """Return whether this is an address on the web, without a user or a password."""
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    plain = url.isprintable() and " " not in url
    return parts.scheme in WEB and has_host and plain and "@" not in parts.netloc


def sqlite_path(url: str) -> str:
    """Return the path of the file in sqlite:///relative/path or sqlite:////absolute/path."""
    return unquote(url.partition("://")[2].removeprefix("/"))


def without_password(url: str) -> str:
    """Return the URL of a database as it may be shown and stored."""
    if scheme_of(url) == SQLITE:
        hidden = public_name(sqlite_path(url)) == ELLIPSIS
        return f"sqlite:///{ELLIPSIS}" if hidden else url
    try:
        return parse_server(url).public
    except InputError:  # it is not valid, or libpq is not here to parse it
        return f"{POSTGRES}://{ELLIPSIS}"


@dataclass(frozen=True)
class Server:
    """The parameters of a connection to PostgreSQL."""

    parts: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)

    @property
    def public(self) -> str:
        """The URL without its secrets."""
        rest = dict(self.parts)
        user, name, place = rest.pop("user", ""), rest.pop("dbname", ""), ""
        host, port = rest.get("host", ""), rest.get("port", "")
        if re.fullmatch(r"[\w.:-]*", host) and "," not in port:  # others fit only below
            place = f"[{host}]" if ":" in host else host
            place += f":{port}" if port else ""
            rest = {key: value for key, value in rest.items() if key not in ("host", "port")}
        login = f"{quote(user, safe='')}@" if user else ""
        path = f"/{quote(name, safe='')}" if name else "/" if rest else ""
        query = f"?{urlencode(rest, quote_via=quote)}" if rest else ""
        return f"{POSTGRES}://{login}{place}{path}{query}"

    def cleaned(self, message: str) -> str:
        """Return a message of the server or the driver without the secrets."""
        forms = {
            form
            for secret in self.secrets.values()
            for form in (secret, quote(secret), quote(secret, safe=""))
            if form
        }
        for form in sorted(forms, key=len, reverse=True):
            message = message.replace(form, "***")
        return message


def parse_server(url: str) -> Server:
    """Return the parts of a PostgreSQL URL as libpq understands them."""
    try:
        from psycopg import pq
        from psycopg.errors import OperationalError
    except ImportError:
        raise InputError(
            "PostgreSQL needs the package psycopg. Install it with: pip install 'whence[postgres]'"
        ) from None
    rest = url.partition("://")[2]
    login, at, after = rest.partition("@")
    if "@" in after or (at and re.search("[/?]", login)):  # libpq would see another host
        raise _not_valid()
    try:
        found = [
            (one.keyword.decode(), one.val.decode(), one.dispchar == b"*")
            for one in pq.Conninfo.parse(f"{POSTGRES}://{rest}".encode())
            if one.val is not None
        ]
    except (OperationalError, UnicodeError):  # the message may repeat the password
        raise _not_valid() from None
    secrets = {name: value for name, value, marked in found if marked or _is_secret(name, value)}
    parts = {name: value for name, value, _ in found if name not in secrets}
    _check_parts(parts)
    return Server(parts, secrets)


def _is_secret(name: str, value: str) -> bool:
    """Return whether a parameter that libpq does not mark may hold a secret."""
    return name in UNMARKED_SECRETS or (name not in PLACE and "password" in value.lower())


def _check_parts(parts: Mapping[str, str]) -> None:
    """Raise if a part writes a file, or may hold a password that is in the wrong place."""
    if "sslkeylogfile" in parts:
        raise InputError("A PostgreSQL URL may not name an sslkeylogfile, which is written to.")
    valid = (
        all(_is_port(port) for port in parts.get("port", "").split(","))
        and all(_is_host(host) for host in parts.get("host", "").split(","))
        and not re.search("[:/]", parts.get("user", ""))
        and not re.search("[@=:/]", parts.get("dbname", ""))
    )
    if not valid:
        raise _not_valid()


def _is_port(text: str) -> bool:
    return not text or (text.isdecimal() and len(text) < 6 and int(text) <= HIGHEST_PORT)


def _is_host(text: str) -> bool:
    try:
        return bool(HOST.fullmatch(text) or ipaddress.IPv6Address(text))
    except ValueError:
        return False


def _not_valid() -> InputError:
    return InputError(
        "This PostgreSQL URL is not valid. Write postgresql://user:password@host:5432/database, "
        "with special characters percent-encoded: @ as %40, / as %2F, % as %25."
    )
