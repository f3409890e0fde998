"""Failures of the system in one sentence. Programming errors have none and keep their traceback."""

import errno
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress

import typer

from whence.errors import InputError
from whence.memory import is_out_of_memory

ASKED_FOR = re.compile(r"allocate (\d[\d.]{0,30}) ?(bytes|[KMGTPE]iB|[KMGTPE]B)", re.IGNORECASE)
"""How NumPy, PyTorch and Arrow say what they asked for."""
HINTS = {
    errno.ENOSPC: "Free some space, or write to another disk.",
    errno.EDQUOT: "Free some space, or write to another disk.",
    errno.EMFILE: "Raise the limit on open files, for example with 'ulimit -n 4096'.",
    errno.ENFILE: "Close other programs that hold files open.",
    errno.EACCES: "Check the permissions.",
    errno.EPERM: "Check the permissions.",
    errno.EROFS: "Choose another folder.",
}


NOT_UTF8 = "'{}' is not valid UTF-8. Rename the file, or correct the text."


def check_arguments(arguments: Sequence[str]) -> None:
    """Refuse what is not UTF-8 at once: Arrow and JSON could not name such files later."""
    for argument in filter(_not_text, arguments):
        raise InputError(NOT_UTF8.format(argument))


def sentence_of(problem: BaseException) -> str | None:
    """Return what to tell the user, or nothing if the failure is not one of the system."""
    if isinstance(problem, typer.Abort):  # what Typer makes of an EOFError
        return "The input ended before it was complete. Copy or download it again."
    if isinstance(problem, RecursionError):
        return "The input is nested too deeply. Remove some of its nested levels."
    if isinstance(problem, UnicodeEncodeError) and _not_text(problem.object):
        return NOT_UTF8.format(problem.object)
    if _out_of_memory(problem):
        return (
            f"There is not enough memory for this{_needed(str(problem))}. Use less data, smaller "
            "settings such as batch_size and max_len, or a machine with more memory."
        )
    if isinstance(problem, OSError):
        where = f"{problem.filename} cannot be used" if problem.filename else "The system reports"
        said = (problem.strerror or str(problem)).rstrip(".")
        return f"{where}: {said}. {HINTS.get(problem.errno or 0, '')}".strip()
    return None


def drop_unwritable_output() -> None:
    """Give up what stdout cannot take, or Python reports it once more when it ends."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _not_text(text: str) -> bool:
    """Return whether it holds surrogates: Python's form of bytes that are not UTF-8."""
    return any("\ud800" <= one <= "\udfff" for one in text)


def _out_of_memory(problem: BaseException) -> bool:
    return (
        isinstance(problem, MemoryError)
        or (isinstance(problem, RuntimeError) and is_out_of_memory(problem))
        or (isinstance(problem, OSError) and problem.errno == errno.ENOMEM)
    )


def _needed(message: str) -> str:
    found = ASKED_FOR.search(message)
    if not found:
        return ""
    number, unit = found.groups()
    if unit.lower() != "bytes":
        return f" (it needs {number} {unit})"
    return f" (it needs {float(number) / 2**30:.1f} GiB)"
