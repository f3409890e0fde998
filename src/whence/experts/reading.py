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

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence.config import build
from whence.errors import InputError, did_you_mean
from whence.experts.family import Family


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
    return parse_family(text, columns, str(path))


def parse_family(text: str, columns: Sequence[str] = (), name: str = "The family") -> Family:
    """The same from the text itself."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise InputError(f"{name} is not TOML: {problem}.") from None
    file = build(FamilyFile, found)
    groups = {
        group: [_place(group, one, columns) for one in named]
        for group, named in file.groups.items()
    }
    return Family.of(groups, file.subsets)


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
