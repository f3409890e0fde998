"""Files from their publishers: whole, checked, and gone on with after an interruption."""

from __future__ import annotations

import hashlib
import http.client
import lzma
import re
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
from whence.errors import InputError
from whence.files import make_parent, new_file, reason
from whence.progress import download_bar

BLOCK = 1 << 18
TIMEOUT_SECONDS = 30
PAUSES = (1.0, 3.0, 9.0)
"""Seconds to wait before trying again; after the last one the user is asked to."""
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, LookupError, EOFError, RuntimeError)
"""What reading a zip archive that is none, or is damaged, or locked, raises."""
RANGE_NOT_SATISFIABLE = 416


class _InterruptedError(Exception):
    """The network's fault, and worth another try."""


def download(
    url: str,
    path: Path,
    checksum: str | None = None,
    pauses: Sequence[float] = PAUSES,
    show_progress: bool = True,
) -> Path:
    """The file at `path`, whole or not at all; the checksum is "md5:…" or "sha256:…".

    What arrived before an interruption, of the network or of this process, stays beside it as
    `<name>.part`, and the next try or call goes on from there.
    """
    if not url.startswith(("http://", "https://")):
        raise InputError(
            f"'{_public(url)}' is no address to download from; it begins with https://."
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
    """The named files of a zip archive, each whole or not at all."""
    try:
        with zipfile.ZipFile(archive) as packed:
            for member in members:
                with new_file(into / member) as partial:
                    _copy(packed, member, partial)
    except DAMAGED as problem:
        raise InputError(
            f"{archive} is not the archive it should be ({problem}); remove it and get it again."
        ) from None


def _copy(packed: zipfile.ZipFile, member: str, path: Path) -> None:
    with packed.open(member) as content, path.open("wb") as file:
        copyfileobj(content, file)


@contextmanager
def _appending(part: Path) -> Iterator[FileIO]:
    """The file that grows; one process at a time, and gone again if nothing came."""
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
    """Held as long as the file is open; where the system has no such locks, nobody is kept out."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"{part} is being downloaded by another process.") from None


def _fetch_rest(url: str, file: FileIO, path: Path, show_progress: bool) -> None:
    """Everything from where the file ends."""
    start = file.seek(0, 2)
    response = _answer(url, start, path)
    if response is None:
        return
    with response:
        begins = response.headers["Content-Range"] or ""
        if response.status != http.HTTPStatus.PARTIAL_CONTENT or not start:
            file.truncate(0)  # a server that knows no ranges begins again
            file.seek(0)
        elif not begins.startswith(f"bytes {start}-"):
            raise _InterruptedError(f"it was asked for from byte {start:,} on and sent {begins}")
        length = response.headers["Content-Length"] or ""
        total = file.tell() + int(length) if length.isdecimal() else None
        bar = download_bar(path.name, total, file.tell(), show_progress)
        for block in bar.track(_blocks(response), size=len):
            file.write(block)
        if total is not None and file.tell() < total:
            raise _InterruptedError(f"it ended after {file.tell():,} of {total:,} bytes")


def _answer(url: str, start: int, path: Path) -> http.client.HTTPResponse | None:
    """The server's answer to the request for the rest; None if there is nothing more."""
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
            raise _by_hand(url, path, "the file there has changed meanwhile") from None
        if problem.code < http.HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _by_hand(url, path, said) from None
        raise _InterruptedError(said) from None
    except urllib.error.URLError as problem:
        raise _InterruptedError(str(problem.reason)) from None
    except (http.client.HTTPException, OSError) as problem:
        raise _InterruptedError(str(problem) or type(problem).__name__) from None
    except ValueError as problem:
        raise InputError(f"'{_public(url)}' is no address: {problem}.") from None


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
        raise _by_hand(url, path, f"its {kind} is {found} and should be {expected}")


def _by_hand(url: str, path: Path, reason: str) -> InputError:
    return InputError(
        f"{_public(url)} could not be downloaded: {reason}. Try again, or fetch that file some "
        f"other way and put it at {path}; then say the same again."
    )


def _public(url: str) -> str:
    """Without a user's name and password."""
    return re.sub(r"//[^/@]*@", "//", url)
