"""Downloads from publishers: checked, complete, and resumed after an interruption."""

from __future__ import annotations

import hashlib
import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import whence
from whence.data.addresses import is_web_address, public_url
from whence.data.archives import check_space
from whence.data.partial_file import Origin, PartialFile, open_partial
from whence.data.web import RefusedError, open_url
from whence.errors import InputError
from whence.progress import download_bar

BLOCK = 1 << 16
PAUSES = (1.0, 3.0, 9.0)
"""Seconds to wait before each retry."""
NUMBER = "[0-9]{1,18}"
CHANGED = "the file there has changed in the meantime"


class _InterruptedError(Exception):
    """A network error that is worth a retry."""


class WrongFileError(Exception):
    """A file that is not the published one."""


def download(
    url: str,
    path: Path,
    max_bytes: int,
    checksum: str | None = None,
    pauses: Sequence[float] = PAUSES,
    show_progress: bool = True,
) -> Path:
    """Download a file of at most `max_bytes` to `path`; the checksum is "md5:…" or "sha256:…".

    An interrupted download stays next to it as `<name>.part`. The next call resumes it if the
    server still has the same file.
    """
    if not is_web_address(url):
        raise InputError(
            f"'{public_url(url)}' is not a download address. Give one that starts with https://, "
            "without a user or a password."
        )
    with open_partial(path.with_name(f"{path.name}.part")) as part:
        fetch = _Fetch(url, part, max_bytes, checksum is not None, show_progress)
        try:
            fetch.all(pauses)
            check_file(part.path, checksum)
        except (_InterruptedError, RefusedError) as problem:
            raise _by_hand(url, path, str(problem)) from None
        except WrongFileError as problem:
            part.remove()
            raise _by_hand(url, path, str(problem)) from None
        part.finish(path)
    return path


def check_file(path: Path, checksum: str | None) -> None:
    """Raise if a file has another checksum."""
    if checksum is None:
        return
    kind, expected = checksum.split(":")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    if found != expected:
        raise WrongFileError(f"its {kind} is {found}, but should be {expected}")


@dataclass(frozen=True)
class _Fetch:
    """Gets the bytes that a partial file lacks."""

    url: str
    part: PartialFile
    max_bytes: int
    checked: bool
    """Whether a checksum will show if the parts of two files were joined."""
    show_progress: bool

    def all(self, pauses: Sequence[float]) -> None:
        """Get the rest of the file, and try again after each interruption."""
        for pause in pauses:
            try:
                return self._rest()
            except _InterruptedError:
                time.sleep(pause)
        return self._rest()

    def _rest(self) -> None:
        origin = self._resumable()
        start = 0 if origin is None else self.part.size
        response = self._answer(start, origin)
        if response is None:
            return
        with response:
            total = self._begin(response, start, origin)
            name = self.part.path.stem
            bar = download_bar(name, total, self.part.size, self.show_progress)
            for block in bar.track(_blocks(response), size=len):
                self._limit(self.part.size + len(block))
                self.part.append(block)
        if total is not None and self.part.size > total:
            self._start_over()
        if total is not None and self.part.size < total:
            raise _InterruptedError(
                f"the connection ended after {self.part.size:,} of {total:,} bytes"
            )

    def _resumable(self) -> Origin | None:
        """Return what the part is a part of, or None to start over."""
        origin = self.part.origin() if self.part.size else None
        if origin is None or origin.address != Origin.hashed(self.url):
            return None
        return origin if origin.validator or self.checked else None

    def _answer(self, start: int, origin: Origin | None) -> http.client.HTTPResponse | None:
        """Return the response to a request for the rest, or None if nothing is left."""
        try:
            request = urllib.request.Request(self.url)
            request.add_header("User-Agent", f"whence/{whence.__version__}")
            if origin is not None:
                request.add_header("Range", f"bytes={start}-")
                if origin.validator:
                    request.add_header("If-Range", origin.validator)
            return open_url(request)
        except urllib.error.HTTPError as problem:
            problem.close()
            if problem.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and origin is not None:
                if problem.headers["Content-Range"] == f"bytes */{start}":
                    return None
                self._start_over()
            raise _status_error(problem.code, problem.reason) from None
        except urllib.error.URLError as problem:
            raise _InterruptedError(str(problem.reason)) from None
        except (http.client.HTTPException, OSError) as problem:
            raise _InterruptedError(str(problem) or type(problem).__name__) from None
        except ValueError as problem:
            raise InputError(f"'{public_url(self.url)}' is not an address: {problem}.") from None

    def _begin(
        self, response: http.client.HTTPResponse, start: int, origin: Origin | None
    ) -> int | None:
        """Return the size of the whole file, once the part ends where the response begins."""
        headers = response.headers
        if response.status == HTTPStatus.OK:
            stated = headers["Content-Length"] or ""
            total = int(stated) if re.fullmatch(NUMBER, stated) else None
            self._limit(total or 0)
            self.part.start(Origin.of(self.url, headers, total))
        elif response.status == HTTPStatus.PARTIAL_CONTENT and origin is not None:
            stated = headers["Content-Range"] or ""
            found = re.fullmatch(rf"bytes {start}-({NUMBER})/({NUMBER}|\*)", stated)
            if not found:
                raise _InterruptedError(f"the server sent {stated or 'a part'}, not from {start:,}")
            total = int(found[1]) + 1 if found[2] == "*" else int(found[2])
            if not origin.agrees(Origin.of(self.url, headers, total)):
                self._start_over()
            self._limit(total)
        else:
            raise _status_error(response.status, response.reason)
        check_space(self.part.path.parent, (total or 0) - self.part.size)
        return total

    def _start_over(self) -> None:
        self.part.empty()
        raise _InterruptedError(CHANGED)

    def _limit(self, size: int) -> None:
        if size > self.max_bytes:
            raise WrongFileError(f"it has {size:,} bytes or more, but {self.max_bytes:,} at most")


def _status_error(code: int, said: str) -> Exception:
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _InterruptedError(f"{code} {said}")
    if HTTPStatus.MULTIPLE_CHOICES <= code < HTTPStatus.BAD_REQUEST:
        return RefusedError(f"{code}: it redirects too often, or to no web address")
    return RefusedError(f"{code} {said}")


def _blocks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            block = response.read(BLOCK)
        except (http.client.HTTPException, OSError) as problem:
            raise _InterruptedError(str(problem) or type(problem).__name__) from None
        if not block:
            return
        yield block


def _by_hand(url: str, path: Path, reason: str) -> InputError:
    return InputError(
        f"{public_url(url)} could not be downloaded: {reason}. Try again, or get the file another "
        f"way, put it at {path}, and repeat the command."
    )
