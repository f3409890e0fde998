"""What can go wrong for a user, each with the exit code the command line gives it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class WhenceError(Exception):
    """One clear sentence that says what is wrong and what to do about it."""

    exit_code = 2


class InputError(WhenceError):
    """The user's data, options or configuration cannot be used as they are."""


class CapabilityError(WhenceError):
    """A model was asked for something it does not offer."""


class RunError(WhenceError):
    """A run folder is absent, incomplete or has been changed."""

    exit_code = 3


class OutOfTime(WhenceError):  # noqa: N818 - it is no error
    """Training has come to the time at which it was to stop; what it has is kept."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """A closing half-sentence: the nearest known names, or all of them when none is near."""
    names = sorted(known)
    if near := nearest(wrong, names):
        return "did you mean " + " or ".join(f"'{name}'" for name in near) + "?"
    return "known: " + ", ".join(names) + "."


def nearest(wrong: str, known: Iterable[str]) -> list[str]:
    """The names that may have been meant, the likeliest first."""
    return difflib.get_close_matches(wrong, sorted(known), n=3, cutoff=0.6)
