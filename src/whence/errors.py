"""Errors for users, each with the exit code of the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from whence.text import one_line, shortened

LONGEST_MESSAGE = 2_000
COMPARED_CHARACTERS = 100
"""Names are compared by their first characters: the time to compare grows with their square."""


class WhenceError(Exception):
    """A message that says what is wrong, where, and what to do.

    It may repeat data, so it is cut to a readable length, and no character of it can act.
    """

    exit_code = 2

    def __init__(self, message: str) -> None:
        # Shortened before, too: a value of a few megabytes need not be cleaned whole.
        message = shortened(message, 2 * LONGEST_MESSAGE)
        super().__init__(shortened(one_line(message), LONGEST_MESSAGE))


class InputError(WhenceError):
    """The data, options or settings cannot be used."""


class TooLargeError(InputError):
    """A computation needs more memory than is free."""


class OutputError(InputError):
    """An output cannot be written: the disk is full, or the place is not allowed."""


class BusyError(OutputError):
    """Another process or thread is writing the same output."""


class CapabilityError(WhenceError):
    """A model lacks a required capability."""


class RunError(WhenceError):
    """A run folder is missing, incomplete or changed."""

    exit_code = 3


class OutOfTime(WhenceError):  # noqa: N818 - not an error
    """Training reached its time limit; its progress is saved."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return the end of a sentence with the most similar names, or with all names."""
    names = sorted(known)
    if near := nearest(wrong, names):
        return "did you mean " + " or ".join(f"'{name}'" for name in near) + "?"
    return "known: " + ", ".join(names) + "."


def nearest(wrong: str, known: Iterable[str]) -> list[str]:
    """Return the most similar names, the most similar first; capitals do not matter."""
    by_key = {name[:COMPARED_CHARACTERS].lower(): name for name in sorted(known)}
    wrong = wrong[:COMPARED_CHARACTERS].lower()
    return [by_key[key] for key in difflib.get_close_matches(wrong, by_key, 3, 0.6)]
