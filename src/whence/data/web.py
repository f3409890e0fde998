"""Requests to web servers: http and https alone, few redirects, and no endless waiting."""

from __future__ import annotations

import http.client
import io
import socket
import time
import urllib.request
from typing import IO, Any
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 30.0
"""How long a server may send nothing."""
WINDOW_SECONDS = 30.0
LEAST_BYTES = 30_000
"""What a server must send in each window, so that a trickle does not last forever."""
MAX_REDIRECTS = 5


class RefusedError(Exception):
    """A redirect that is not followed."""


def open_url(request: urllib.request.Request) -> http.client.HTTPResponse:
    """Send a request; everything that is read of the answer must arrive at some speed."""
    found: http.client.HTTPResponse = _OPENER.open(request, timeout=TIMEOUT_SECONDS)
    return found


class _Steady(io.RawIOBase):
    """Bytes of a connection; raises `TimeoutError` if they arrive too slowly."""

    def __init__(self, source: io.RawIOBase) -> None:
        self._source = source
        self._waited = 0.0
        self._received = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401
        started = time.monotonic()
        count = self._source.readinto(buffer)
        self._waited += time.monotonic() - started
        self._received += count or 0
        if self._waited >= WINDOW_SECONDS:
            if self._received < LEAST_BYTES:
                raise TimeoutError(f"only {self._received:,} bytes in {self._waited:.0f} seconds")
            self._waited, self._received = 0.0, 0
        return count

    def close(self) -> None:
        self._source.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_Steady(self.fp.detach()))


class _Connection(http.client.HTTPConnection):
    response_class = _Response


class _SecureConnection(http.client.HTTPSConnection):
    response_class = _Response


class _PlainHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)


class _SecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, req)


class _RedirectHandler(urllib.request.HTTPRedirectHandler):
    max_redirections = MAX_REDIRECTS

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Follow a redirect, but neither from https to http nor to anything else."""
        fp.close()  # or the whole body of the redirect would be read
        secure = urlsplit(req.full_url).scheme == "https"
        allowed = ("https",) if secure else ("http", "https")
        if urlsplit(newurl).scheme not in allowed:
            raise RefusedError(f"it redirects to an address without {allowed[0]}://")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener that knows no other scheme, such as file: or ftp:."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        _PlainHandler(),
        _SecureHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        _RedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


_OPENER = _opener()
