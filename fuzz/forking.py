"""Work in forked processes, which need not import PyTorch again, killed at a given moment."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from whence.errors import WhenceError
from whence_studies.charts.study_page import DRAWING

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "ctypes.dlsym", "fcntl.flock"}
"""Events after which a folder may look different; so does one of opening a file to write."""
KILLED = -signal.SIGKILL


def start(
    work: Callable[[], object],
    kill_at: int | None = None,
    on_change: Callable[[], object] | None = None,
) -> int:
    """Start the work in a process, which dies right before its n-th change, and return its id.

    `on_change` is called before each change.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a forked process has one thread
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        if kill_at is not None or on_change is not None:
            _watch(kill_at, on_change or (lambda: None))
        work()
        code = 0
    except WhenceError as problem:
        code = problem.exit_code
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def end(child: int) -> int:
    """Wait for a process, and return its exit code, negative if a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _watch(kill_at: int | None, on_change: Callable[[], object]) -> None:
    seen = 0

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE
        if event in CHANGES or writes:
            seen += 1
            on_change()
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def draw_nothing() -> None:
    """Have studies draw no charts: that takes seconds, and its threads do not survive a fork."""
    for name in DRAWING:
        sys.modules[name] = None  # type: ignore[assignment]


def content(folder: Path) -> Mapping[str, bytes | None]:
    """Return all files below a folder, hidden ones too, and empty folders."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
