"""One writer of an output at a time, and what a killed writer left of it.

Whoever writes `run` holds a lock of the system on the file `.run.whence-lock`. The lock ends with
its process, however that ends, and it counts between containers that share a file system. Threads
exclude each other too; within its thread, a lock can be taken again. Readers need no lock.

The file holds a random token, which is part of the temporary names of that output. A lock file that
nobody has locked was left by a killed process, and its token says which names were its own.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from whence.errors import BusyError, OutOfTime, OutputError

if sys.platform == "win32":
    import msvcrt

    FAR_BYTE = 1 << 30
    """The byte to lock, behind the record: Windows lets nobody read what is locked."""

    def _try_lock(file: int) -> bool:
        """Lock an open file, or raise `BlockingIOError`. Return whether locks work here."""
        os.lseek(file, FAR_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            raise BlockingIOError from None
        return True

else:
    import fcntl

    def _try_lock(file: int) -> bool:
        """Lock an open file, or raise `BlockingIOError`. Return whether locks work here."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # some network file systems have no locks
            return False
        return True


RECORD = re.compile(rb"whence ([0-9a-f]{16}) ([0-9a-f]{64}|-{64}) ([0-9a-f]{64}|-{64})\n")
"""The token, the task and the result, always of the same length: one write replaces another."""
NOTHING = "-" * 64
ABANDONED_SECONDS = 24 * 60 * 60
"""Where locks do not work, what is younger may belong to a process that is alive."""
SECONDS_BETWEEN_TRIES = 0.2
PLAINLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Neither follow a link nor wait for the other end of a pipe."""

_held: dict[tuple[int, Path], Lock] = {}
"""The locks of this process, by thread and path."""


class Lock:
    """The right to write one output, and the record of it in the lock file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file, works = _open_locked(lock_file(path))
        os.lseek(self._file, 0, os.SEEK_SET)
        found = RECORD.fullmatch(os.read(self._file, 1024))
        self.finished = False
        """Whether a killed process has finished the output, and no call has claimed that yet."""
        self.left_task = self.left_result = self._task = NOTHING
        """What a killed process recorded; nothing once this one has."""
        self.token = new_token()
        try:
            if found is not None and (works or _is_old(os.fstat(self._file))):
                left = (one.decode() for one in found.groups())
                self.token, self.left_task, self.left_result = left
                self.tidy()
            else:
                self.record()
        except BaseException:
            self.release()
            raise

    def forget(self) -> None:
        """Leave the lock to the process that this one was forked from."""
        os.close(self._file)

    def record(self, *, task: str | None = None, result: str = NOTHING) -> None:
        """Write what is being done, as checksums, for the process after this one."""
        self._task = task or self._task
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, f"whence {self.token} {self._task} {result}\n".encode())
        os.fsync(self._file)
        self.left_task = self.left_result = NOTHING

    def hidden(self, kind: str) -> Path:
        """Return the temporary name of this kind."""
        return hidden_name(self.path, kind, self.token)

    def tidy(self) -> None:
        """Remove the temporary folders; a former one is restored if it has not been replaced."""
        former = self.hidden("former")
        if former.is_dir() and not self.path.exists():
            former.rename(self.path)
        for left in (self.hidden("partial"), former):
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)

    def release(self) -> None:
        """Remove the lock file, unless it says that the output is finished and unclaimed."""
        if sys.platform == "win32":  # which cannot remove an open file
            os.close(self._file)
        if not self.finished:
            with suppress(OSError):
                lock_file(self.path).unlink()
        if sys.platform != "win32":
            os.close(self._file)


@contextmanager
def lock(path: Path, wait: bool = False, until: float | None = None) -> Iterator[Lock]:
    """Hold the lock of an output whose folder exists.

    If another process or thread has it, raise `BusyError`, or wait for it: until the time `until`,
    by `time.monotonic()`, which raises `OutOfTime`.
    """
    path = path.resolve()
    key = threading.get_ident(), path
    if key in _held:
        yield _held[key]
        return
    taken = _held[key] = _wait_for(path, until) if wait else _take(path)
    try:
        yield taken
    finally:
        if _held.pop(key, None) is not None:
            taken.release()


def lock_file(path: Path) -> Path:
    """Return the lock file of an output."""
    return path.with_name(f".{path.name}.whence-lock")


def hidden_name(path: Path, kind: str, token: str) -> Path:
    """Return the temporary name that belongs to an output."""
    return path.with_name(f".{path.name}.whence-{kind}-{token}")


def new_token() -> str:
    """Return a random part of a name. Process ids are not enough: containers share them."""
    return secrets.token_hex(8)


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Lock a temporary folder, or a temporary file that may be new, while this process uses it."""
    if sys.platform == "win32":  # where an open file could not be renamed
        yield
        return
    if path.is_dir():
        file = os.open(path, os.O_RDONLY | PLAINLY)
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
    else:
        file = _create_locked(path)
    try:
        yield
    finally:
        os.close(file)


@contextmanager
def abandoned(path: Path) -> Iterator[bool]:
    """Say whether no living process holds a temporary file or folder; meanwhile, none can."""
    try:
        file = os.open(path, os.O_RDONLY | PLAINLY)
    except OSError:  # gone, or not ours
        yield False
        return
    try:
        yield _is_free(file)
    finally:
        os.close(file)


def _take(path: Path) -> Lock:
    if not path.name:
        raise OutputError(f"{path} cannot be written: it is the root of all folders.")
    try:
        return Lock(path)
    except BlockingIOError:
        raise BusyError(
            f"{path} is being written by another process. Wait for it, or choose another folder."
        ) from None
    except OSError as problem:
        raise OutputError(f"{path} cannot be written: {problem.strerror}.") from problem


def _wait_for(path: Path, until: float | None) -> Lock:
    while True:
        try:
            return _take(path)
        except BusyError:
            if until is not None and time.monotonic() >= until:
                raise OutOfTime(f"{path} is still being written by another process.") from None
            time.sleep(SECONDS_BETWEEN_TRIES)


def _open_locked(path: Path) -> tuple[int, bool]:
    """Return the locked file, and whether locks work here. `BlockingIOError`: another has it."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | PLAINLY, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(errno.EINVAL, f"{path.name} is not a file")
            works = _try_lock(file)
            # The one who had it may have removed it since it was opened here.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), path.stat()):
                    return file, works
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _is_free(file: int) -> bool:
    """Lock a temporary file if nobody has; where locks do not work, its age decides."""
    try:
        works = sys.platform != "win32" and _try_lock(file)
    except BlockingIOError:
        return False
    return works or _is_old(os.fstat(file))


def _create_locked(path: Path) -> int:
    """Return a new locked file, also if others look at it before it is locked."""
    while True:
        with suppress(BlockingIOError):
            return _open_locked(path)[0]


def _is_old(found: os.stat_result) -> bool:
    return time.time() - found.st_mtime > ABANDONED_SECONDS


def _forget_all() -> None:
    for one in _held.values():
        one.forget()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
