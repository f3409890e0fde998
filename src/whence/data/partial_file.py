"""The first part of a download, and a note of what it is a part of."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from email.message import Message
from io import FileIO
from pathlib import Path

from whence.config import build
from whence.errors import InputError
from whence.files import make_parent, new_file, read_json, reason, write_json

LONGEST_NOTE = 10_000
"""A note with more bytes is not one of ours."""


@dataclass(frozen=True)
class Origin:
    """What tells whether a server still has the same file."""

    address: str
    """A hash, because an address may hold a password."""
    etag: str | None = None
    modified: str | None = None
    total: int | None = None

    @classmethod
    def of(cls, url: str, headers: Message, total: int | None) -> Origin:
        """Return what an answer says about its file."""
        return cls(cls.hashed(url), headers["ETag"], headers["Last-Modified"], total)

    @staticmethod
    def hashed(url: str) -> str:
        """Return the hash that stands for an address."""
        return hashlib.sha256(url.encode()).hexdigest()

    @property
    def validator(self) -> str | None:
        """What `If-Range` may hold: a strong ETag or a date."""
        strong = self.etag and not self.etag.startswith("W/")
        return self.etag if strong else self.modified

    def agrees(self, other: Origin) -> bool:
        """Return whether nothing that both state differs."""
        mine, theirs = asdict(self), asdict(other)
        return all(mine[key] in (None, theirs[key]) or theirs[key] is None for key in mine)


class PartialFile:
    """`<name>.part`, open and locked, and `<name>.part.json`, which says what it belongs to."""

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path = path
        self.file = file
        self._note = _note_of(path)

    @property
    def size(self) -> int:
        """The number of bytes so far."""
        return os.fstat(self.file.fileno()).st_size

    def origin(self) -> Origin | None:
        """Return what the bytes are a part of, if that is known."""
        if not _is_plain(self._note) or self._note.stat().st_size > LONGEST_NOTE:
            return None
        try:
            found = build(Origin, read_json(self._note))
        except InputError:
            return None
        return found if (found.validator or "").isprintable() else None

    def append(self, content: bytes) -> None:
        """Write bytes at the end."""
        rest = memoryview(content)
        while rest:
            rest = rest[self.file.write(rest) :]

    def empty(self) -> None:
        """Drop all bytes."""
        self.file.truncate(0)

    def start(self, origin: Origin) -> None:
        """Drop all bytes, and then note what the next ones belong to."""
        self.empty()
        self._note.unlink(missing_ok=True)
        with new_file(self._note) as written:
            write_json(written, asdict(origin))

    def finish(self, target: Path) -> None:
        """Rename the part to its final name."""
        self.path.replace(target)
        self._note.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the part and its note."""
        self._note.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)


@contextmanager
def open_partial(path: Path) -> Iterator[PartialFile]:
    """Open a partial file for one process at a time, and remove it if it stays empty."""
    make_parent(path)
    try:
        with FileIO(path, "ab", opener=_open_plain) as file:
            _lock(file, path)
            part = PartialFile(path, file)
            try:
                yield part
            finally:
                if path.exists() and not part.size:
                    part.remove()
    except OSError as problem:
        raise InputError(f"{path} cannot be written: {reason(problem)}.") from None


def _open_plain(path: str, flags: int) -> int:
    """Open a file without following a link or waiting for the reader of a pipe."""
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        opened = os.open(path, flags | careful, 0o666)
    except OSError as problem:
        if problem.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise _not_plain(Path(path)) from None
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise _not_plain(Path(path))
    return opened


def _is_plain(path: Path) -> bool:
    return path.exists() and stat.S_ISREG(path.lstat().st_mode)


def _not_plain(path: Path) -> InputError:
    return InputError(f"{path} is a link or a pipe instead of a file. Remove it.")


def _note_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _lock(file: FileIO, path: Path) -> None:
    """Lock the file while it is open, if the system has such locks."""
    try:
        import fcntl
    except ImportError:
        return
    busy = InputError(f"{path} is being downloaded by another process. Wait for it.")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise busy from None
    # Between opening and locking, another process may have finished and renamed the file.
    if not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
        raise busy
