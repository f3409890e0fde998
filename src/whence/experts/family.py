"""Families of subsets: named feature groups, and the subsets of them that experts may see.

In a family S = {S_1, …, S_H} of Afchar & Hennequin (2020), expert i reads the groups in S_i and
nothing else. `diagram.py` has their Hasse diagram. `read_family` reads a family from TOML:

    [groups]
    content = [0, 1, 2]
    user = [3]

    [subsets]
    S1 = ["content"]
    S2 = ["content", "user"]

A group lists its columns by number from 0, or by name if the table's columns have names.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index
from pathlib import Path
from typing import Any, TypeVar

from whence.config import build
from whence.errors import InputError, did_you_mean

T = TypeVar("T")
DUPLICATE = ("Cannot overwrite", "Cannot declare", "Cannot mutate")
"""How Python's messages about a duplicate name start."""
AT_LINE = re.compile(r"at line (\d+)")
LAST_NAME = re.compile(r"'([^']*)',?\)")
"""The last part of the duplicate's dotted name, if Python's message has it."""
LINE_START = re.compile(r"""\s*+(\[\s*+)?("[^"]*"|'[^']*'|[\w.-]++)\s*+(?(1)\]|=)""")
"""The start of a line that names something: a key with its value, or a table."""


@dataclass(frozen=True)
class Group:
    """Input columns (or slots) that are seen together or not at all, X_k."""

    name: str
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Subset:
    """The groups that one expert may see, S_i."""

    name: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Family:
    """Validated groups and subsets.

    Experts are sorted by how many others they contain, and by the given order among equals. So an
    expert always comes after those it contains.
    """

    groups: tuple[Group, ...]
    subsets: tuple[Subset, ...]

    def __post_init__(self) -> None:
        _check_groups(self.groups)
        _check_subsets(self.groups, self.subsets)
        _check_top(self.groups, self.subsets)
        seen = [set(subset.groups) for subset in self.subsets]
        inside = [sum(other < own for other in seen) for own in seen]
        order = sorted(range(len(seen)), key=inside.__getitem__)
        object.__setattr__(self, "subsets", tuple(self.subsets[number] for number in order))

    @classmethod
    def of(
        cls, groups: Mapping[str, Iterable[int]], subsets: Mapping[str, Iterable[str]]
    ) -> Family:
        """Build a family from the columns of each group and the groups of each subset."""
        return cls(
            tuple(Group(name, _columns(name, columns)) for name, columns in groups.items()),
            tuple(
                Subset(name, tuple(_as_list(f"The subset '{name}'", "groups", seen)))
                for name, seen in subsets.items()
            ),
        )

    def __len__(self) -> int:
        """Return the number of experts, H."""
        return len(self.subsets)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the experts."""
        return tuple(subset.name for subset in self.subsets)

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the groups."""
        return tuple(group.name for group in self.groups)

    @property
    def n_columns(self) -> int:
        """Number of columns of an input: up to the last that a group names."""
        return 1 + max(column for group in self.groups for column in group.columns)

    @cached_property
    def sees(self) -> tuple[tuple[bool, ...], ...]:
        """`[H][groups]`: whether an expert may see a group."""
        return tuple(
            tuple(group.name in subset.groups for group in self.groups) for subset in self.subsets
        )

    @cached_property
    def contained(self) -> tuple[tuple[int, ...], ...]:
        """ω(i) for every expert: the experts whose subset lies strictly inside its own."""
        seen = [set(subset.groups) for subset in self.subsets]
        return tuple(
            tuple(other for other, inner in enumerate(seen) if inner < outer) for outer in seen
        )

    @cached_property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """The columns that each expert may see, group by group."""
        return self.columns_of({group.name: group.columns for group in self.groups})

    def columns_of(self, groups: Mapping[str, Iterable[int]]) -> tuple[tuple[int, ...], ...]:
        """Return the same for rows with another layout, which may lack some of the groups."""
        for name in groups:
            if name not in self.group_names:
                raise InputError(
                    f"There is no group '{name}': {did_you_mean(name, self.group_names)}"
                )
        elsewhere = tuple(Group(name, _columns(name, columns)) for name, columns in groups.items())
        _check_columns(elsewhere)
        columns = {group.name: group.columns for group in elsewhere}
        return tuple(
            tuple(
                column
                for group, seen in zip(self.groups, row, strict=True)
                if seen
                for column in columns.get(group.name, ())
            )
            for row in self.sees
        )

    def as_one(self) -> Family:
        """Return the family of one expert that sees all groups."""
        return Family(self.groups, (Subset("all", self.group_names),))

    def index(self, name: str) -> int:
        """Return the number of the expert with that name."""
        if name not in self.names:
            raise InputError(f"There is no subset '{name}': {did_you_mean(name, self.names)}")
        return self.names.index(name)


def _columns(group: str, columns: Iterable[int]) -> tuple[int, ...]:
    listed = _as_list(f"The group '{group}'", "columns", columns)
    return tuple(_column(group, column) for column in listed)


def _column(group: str, column: int) -> int:
    """Return the column as a Python int, whatever integer type it has."""
    try:
        return index(column)
    except TypeError:
        raise InputError(
            f"The group '{group}' has the column {column!r}. Columns are integers from 0."
        ) from None


def _as_list(owner: str, what: str, given: Iterable[T]) -> list[T]:
    """Return a list; a string would otherwise be split into letters."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"{owner} needs a list of {what}, not {given!r}.")
    return list(given)


def _check_groups(groups: tuple[Group, ...]) -> None:
    if not groups:
        raise InputError("A family needs at least one group.")
    duplicate = _first_duplicate(group.name for group in groups)
    if duplicate is not None:
        raise InputError(f"The group '{duplicate}' is defined twice. Rename one of them.")
    _check_columns(groups)


def _check_columns(groups: tuple[Group, ...]) -> None:
    """Check that no column belongs to two groups, so that experts see only their own groups."""
    for group in groups:
        if not group.columns:
            raise InputError(f"The group '{group.name}' has no column. Add one or remove it.")
        if min(group.columns) < 0:
            least = min(group.columns)
            raise InputError(
                f"The group '{group.name}' has the column {least}. Columns count from 0."
            )
    shared = _first_duplicate(column for group in groups for column in group.columns)
    if shared is not None:
        owners = [group.name for group in groups for column in group.columns if column == shared]
        raise InputError(
            f"The column {shared} is in '{owners[0]}' and again in '{owners[1]}'. A column may "
            "belong to one group only, and only once."
        )


def _check_subsets(groups: tuple[Group, ...], subsets: tuple[Subset, ...]) -> None:
    known = [group.name for group in groups]
    duplicate = _first_duplicate(subset.name for subset in subsets)
    if duplicate is not None:
        raise InputError(f"The subset '{duplicate}' is defined twice. Rename one of them.")
    by_groups: dict[frozenset[str], str] = {}
    for subset in subsets:
        _check_subset(subset, known)
        same = by_groups.setdefault(frozenset(subset.groups), subset.name)
        if same != subset.name:
            raise InputError(
                f"The subsets '{same}' and '{subset.name}' hold the same groups. Remove one."
            )


def _check_subset(subset: Subset, known: list[str]) -> None:
    if not subset.groups:
        raise InputError(f"The subset '{subset.name}' is empty. Add at least one group.")
    for group in subset.groups:
        if group not in known:
            raise InputError(
                f"The subset '{subset.name}' holds the unknown group '{group}': "
                f"{did_you_mean(group, known)}"
            )
    duplicate = _first_duplicate(subset.groups)
    if duplicate is not None:
        raise InputError(f"The subset '{subset.name}' holds the group '{duplicate}' twice.")


def _check_top(groups: tuple[Group, ...], subsets: tuple[Subset, ...]) -> None:
    """Check that one expert sees all groups: cases that simple experts reject must go somewhere."""
    if not any(len(subset.groups) == len(groups) for subset in subsets):
        names = ", ".join(group.name for group in groups)
        raise InputError(f"No subset holds all groups. Add one with {names}.")


def _first_duplicate(names: Iterable[str | int]) -> str | int | None:
    """Return the first value that occurs more than once, or None."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


@dataclass(frozen=True)
class FamilyFile:
    """The contents of a family file."""

    groups: Mapping[str, tuple[Any, ...]]
    subsets: Mapping[str, tuple[str, ...]]


def read_family(path: Path | str, columns: Sequence[str] = ()) -> Family:
    """Read a family from a TOML file, for a table whose columns have these names."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as problem:
        raise InputError(f"Cannot read {path}: {problem.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text.") from None
    try:
        return parse_family(text, columns)
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None


def parse_family(text: str, columns: Sequence[str] = ()) -> Family:
    """Read a family from TOML text."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise _not_toml(text, str(problem)) from None
    file = build(FamilyFile, found, "The family")
    groups = {
        group: [_column_number(group, one, columns) for one in named]
        for group, named in file.groups.items()
    }
    return Family.of(groups, file.subsets)


def _not_toml(text: str, problem: str) -> InputError:
    """Describe the TOML error; for duplicates Python gives the last line, but not always a name."""
    line, named = AT_LINE.search(problem), LAST_NAME.search(problem)
    read = text.splitlines()[: int(line[1]) if line else None]
    names = [found[2].strip("'\"") for one in read if (found := LINE_START.match(one))]
    if not names or not problem.startswith(DUPLICATE):
        return InputError(f"The family is not valid TOML: {problem}.")
    return InputError(
        f"The name '{named[1] if named else names[-1]}' is defined twice; the second "
        f"definition ends in line {len(read)}. Remove or rename one."
    )


def _column_number(group: str, column: object, columns: Sequence[str]) -> int:
    """Return the number of a column given by number or name."""
    if isinstance(column, int) and not isinstance(column, bool):
        if columns and column >= len(columns):
            raise InputError(
                f"The group '{group}' has the column {column}, but the table's columns are 0 to "
                f"{len(columns) - 1}."
            )
        return column
    if not isinstance(column, str):
        raise InputError(f"The group '{group}' has the column {column!r}. Use its number or name.")
    if not columns:
        raise InputError(
            f"The group '{group}' names the column '{column}', but no column names were passed. "
            "Use its number, or pass columns=."
        )
    if column not in columns:
        raise InputError(
            f"The group '{group}' has the unknown column '{column}': "
            f"{did_you_mean(column, columns)}"
        )
    return list(columns).index(column)
