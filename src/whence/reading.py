"""Reading whole text files that others may have written."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from whence.errors import InputError

LARGEST_TEXT: Final = 2**28
"""More bytes than any document of Whence has; parsed, they take about ten times the memory."""


def check_regular(path: Path) -> None:
    """Raise unless this is a regular file: reading a pipe or a device may never end."""
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError) as problem:  # a path may hold a NUL character
        raise InputError(f"{path} cannot be read: {_why(problem)}.") from None
    if stat.S_ISDIR(kind):
        raise InputError(f"{path} is a folder. Give a file in it.")
    if not stat.S_ISREG(kind):
        raise InputError(f"{path} is not a regular file. Write its content to a file first.")


def read_text(path: Path, largest: int = LARGEST_TEXT) -> str:
    """Return a text file of at most `largest` bytes, or raise an `InputError`."""
    check_regular(path)
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > largest:
                raise InputError(f"{path} is too large: it may have {largest >> 20} MB.")
            return file.read(largest).decode("utf-8")
    except UnicodeDecodeError as problem:
        raise InputError(f"{path} is not valid UTF-8 (at byte {problem.start:,}).") from None
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {_why(problem)}.") from None


def _why(problem: OSError | ValueError) -> str:
    return getattr(problem, "strerror", None) or str(problem)
