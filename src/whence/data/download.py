"""Downloads from publishers: checked, complete, and resumed after an interruption."""

from __future__ import annotations

import hashlib
import http.client
import lzma
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from shutil import copyfileobj

import whence
from whence.data.addresses import is_web_address, public_url
from whence.errors import InputError
from whence.files import make_parent, new_file, reason
from whence.progress import download_bar

BLOCK = 1 << 18
TIMEOUT_SECONDS = 30
PAUSES = (1.0, 3.0, 9.0)
"""Seconds to wait before each retry."""
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, LookupError, EOFError, RuntimeError)
"""What reading a damaged or encrypted zip archive raises."""
RANGE_NOT_SATISFIABLE = 416


class _InterruptedError(Exception):
    """A network error that is worth a retry."""


def download(
    url: str,
    path: Path,
    checksum: str | None = None,
    pauses: Sequence[float] = PAUSES,
    show_progress: bool = True,
) -> Path:
    """Download a file to `path`; the checksum is "md5:…" or "sha256:…".

    An interrupted download stays next to it as `<name>.part`, and the next call resumes it.
    """
    if not is_web_address(url):
        raise InputError(
            f"'{public_url(url)}' is not a download address. Give one that starts with https://, "
            "without a user or a password."
        )
    part = path.with_name(f"{path.name}.part")
    with _appending(part) as file:
        for pause in (*pauses, None):
            try:
                _fetch_rest(url, file, path, show_progress)
                break
            except _InterruptedError as problem:
                if pause is None:
                    raise _by_hand(url, path, str(problem)) from None
                time.sleep(pause)
        _check(part, checksum, url, path)
        part.replace(path)
    return path


def unpack(archive: Path, members: Sequence[str], into: Path) -> None:
    """Unpack these files of a zip archive."""
    try:
        with zipfile.ZipFile(archive) as packed:
            for member in members:
                with new_file(into / member) as partial:
                    _copy(packed, member, partial)
    except DAMAGED as problem:
        raise InputError(
            f"{archive} is not the expected archive ({problem}). Remove it, and download it again."
        ) from None


def _copy(packed: zipfile.ZipFile, member: str, path: Path) -> None:
    with packed.open(member) as content, path.open("wb") as file:
        copyfileobj(content, file)


@contextmanager
def _appending(part: Path) -> Iterator[FileIO]:
    """Open the partial file for one process at a time, and remove it if it stays empty."""
    make_parent(part)
    try:
        with FileIO(part, "ab") as file:
            _lock(file, part)
            try:
                yield file
            finally:
                if part.exists() and not part.stat().st_size:
                    part.unlink()
    except OSError as problem:
        raise InputError(f"{part} cannot be written: {reason(problem)}.") from None


def _lock(file: FileIO, part: Path) -> None:
    """Lock the file while it is open, if the system has such locks."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"{part} is being downloaded by another process. Wait for it.") from None


def _fetch_rest(url: str, file: FileIO, path: Path, show_progress: bool) -> None:
    """Download the rest of the file."""
    start = file.seek(0, 2)
    response = _answer(url, start, path)
    if response is None:
        return
    with response:
        begins = response.headers["Content-Range"] or ""
        if response.status != http.HTTPStatus.PARTIAL_CONTENT or not start:
            file.truncate(0)  # the server does not support ranges and starts over
            file.seek(0)
        elif not begins.startswith(f"bytes {start}-"):
            raise _InterruptedError(f"the server sent bytes from {begins} instead of {start:,}")
        length = response.headers["Content-Length"] or ""
        total = file.tell() + int(length) if length.isdecimal() else None
        bar = download_bar(path.name, total, file.tell(), show_progress)
        for block in bar.track(_blocks(response), size=len):
            file.write(block)
        if total is not None and file.tell() < total:
            raise _InterruptedError(
                f"the connection ended after {file.tell():,} of {total:,} bytes"
            )


def _answer(url: str, start: int, path: Path) -> http.client.HTTPResponse | None:
    """Return the response to a request for the rest, or None if nothing is left."""
    try:
        request = urllib.request.Request(url)
        request.add_header("User-Agent", f"whence/{whence.__version__}")
        if start:
            request.add_header("Range", f"bytes={start}-")
        found: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
        return found
    except urllib.error.HTTPError as problem:
        said = f"{problem.code} {problem.reason}"
        if problem.code == RANGE_NOT_SATISFIABLE:
            if problem.headers["Content-Range"] == f"bytes */{start}":
                return None
            path.with_name(f"{path.name}.part").unlink(missing_ok=True)
            raise _by_hand(url, path, "the file there has changed in the meantime") from None
        if problem.code < http.HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _by_hand(url, path, said) from None
        raise _InterruptedError(said) from None
    except urllib.error.URLError as problem:
        raise _InterruptedError(str(problem.reason)) from None
    except (http.client.HTTPException, OSError) as problem:
        raise _InterruptedError(str(problem) or type(problem).__name__) from None
    except ValueError as problem:
        raise InputError(f"'{public_url(url)}' is not an address: {problem}.") from None


def _blocks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            block = response.read(BLOCK)
        except (http.client.HTTPException, OSError) as problem:
            raise _InterruptedError(str(problem) or type(problem).__name__) from None
        if not block:
            return
        yield block


def _check(part: Path, checksum: str | None, url: str, path: Path) -> None:
    if checksum is None:
        return
    kind, expected = checksum.split(":")
    with part.open("rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    if found != expected:
        part.unlink()
        raise _by_hand(url, path, f"its {kind} is {found}, but should be {expected}")


def _by_hand(url: str, path: Path, reason: str) -> InputError:
    return InputError(
        f"{public_url(url)} could not be downloaded: {reason}. Try again, or get the file another "
        f"way, put it at {path}, and repeat the command."
    )
