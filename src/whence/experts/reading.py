"""Families of subsets from a TOML file.

    [groups]
    content = [0, 1, 2]
    user = [3]

    [subsets]
    S1 = ["content"]
    S2 = ["content", "user"]

A group's columns are numbers from 0 on, or names where the table's columns have some.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence.config import build
from whence.errors import InputError, did_you_mean
from whence.experts.family import Family

TWICE = ("Cannot overwrite", "Cannot declare", "Cannot mutate")
"""How Python begins to say that a name is there twice."""
AT_LINE = re.compile(r"at line (\d+)")
DATASETS = re.compile(r"\((?:'.*', )?'(.*?)',?\)")
"""The last of the names that lead to what is there twice, where Python says them."""
BEGUN = re.compile(r"""\s*(\[)?\s*("[^"]*"|'[^']*'|[\w.-]+)\s*(?(1)\]|=)""")
"""What may begin a line: a name with its value, or the name of a table."""


@dataclass(frozen=True)
class FamilyFile:
    """What stands in the file."""

    groups: Mapping[str, tuple[Any, ...]]
    subsets: Mapping[str, tuple[str, ...]]


def read_family(path: Path | str, columns: Sequence[str] = ()) -> Family:
    """The family in a TOML file, for a table with columns of these names."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {problem.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text in UTF-8.") from None
    try:
        return parse_family(text, columns)
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None


def parse_family(text: str, columns: Sequence[str] = ()) -> Family:
    """The same from the text itself."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise _not_toml(text, str(problem)) from None
    file = build(FamilyFile, found, "The family")
    groups = {
        group: [_place(group, one, columns) for one in named]
        for group, named in file.groups.items()
    }
    return Family.of(groups, file.subsets)


def _not_toml(text: str, problem: str) -> InputError:
    """Of a value that is there twice Python says where it ends, and not always its name."""
    line, named = AT_LINE.search(problem), DATASETS.search(problem)
    read = text.splitlines()[: int(line[1]) if line else None]
    begun = [found[2].strip("'\"") for one in read if (found := BEGUN.match(one))]
    if not begun or not problem.startswith(TWICE):
        return InputError(f"The family is not TOML: {problem}.")
    return InputError(
        f"The name '{named[1] if named else begun[-1]}' is there twice, and the second ends in "
        f"line {len(read)}; leave one out or give it another name."
    )


def _place(group: str, column: object, columns: Sequence[str]) -> int:
    """The number of a column that is given by its number or its name."""
    if isinstance(column, int) and not isinstance(column, bool):
        if columns and column >= len(columns):
            raise InputError(
                f"The group '{group}' has the column {column}; the table's go from 0 to "
                f"{len(columns) - 1}."
            )
        return column
    if not isinstance(column, str):
        raise InputError(f"The group '{group}' has the column {column!r}; say its number or name.")
    if not columns:
        raise InputError(
            f"The group '{group}' names the column '{column}', but the table's columns have no "
            "names here; say its number."
        )
    if column not in columns:
        raise InputError(
            f"The group '{group}' has the unknown column '{column}': "
            f"{did_you_mean(column, columns)}"
        )
    return list(columns).index(column)
