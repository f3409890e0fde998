"""The language of subsets: named feature groups, and the subsets of them that experts may see.

A family S = {S_1, …, S_H} of Afchar & Hennequin (2020): expert i reads the groups in S_i, and
nothing else. Their Hasse diagram is in `diagram.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import TypeVar

from whence.errors import InputError, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """Input columns (or slots) that are seen together or not at all, X_k."""

    name: str
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Subset:
    """What one expert may see, S_i."""

    name: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Family:
    """Groups and subsets, checked.

    Experts stand in the order of how many others they contain, and those that contain equally many
    in the order given: what is contained always comes before what contains it.
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
        object.__setattr__(self, "subsets", tuple(self.subsets[place] for place in order))

    @classmethod
    def of(
        cls, groups: Mapping[str, Iterable[int]], subsets: Mapping[str, Iterable[str]]
    ) -> Family:
        """From the columns of every group and the groups of every subset, by name."""
        return cls(
            tuple(Group(name, _columns(name, columns)) for name, columns in groups.items()),
            tuple(
                Subset(name, tuple(_listed(f"The subset '{name}'", "groups", seen)))
                for name, seen in subsets.items()
            ),
        )

    def __len__(self) -> int:
        """How many experts, H."""
        return len(self.subsets)

    @property
    def names(self) -> tuple[str, ...]:
        """The experts' names."""
        return tuple(subset.name for subset in self.subsets)

    @property
    def group_names(self) -> tuple[str, ...]:
        """The groups' names."""
        return tuple(group.name for group in self.groups)

    @property
    def width(self) -> int:
        """How many columns an input has: up to the last that a group names."""
        return 1 + max(column for group in self.groups for column in group.columns)

    @cached_property
    def sees(self) -> tuple[tuple[bool, ...], ...]:
        """`[H][groups]`: whether an expert may see a group."""
        return tuple(
            tuple(group.name in subset.groups for group in self.groups) for subset in self.subsets
        )

    @cached_property
    def contained(self) -> tuple[tuple[int, ...], ...]:
        """ω(i): the experts whose subset lies strictly inside expert i's, for every expert."""
        seen = [set(subset.groups) for subset in self.subsets]
        return tuple(
            tuple(other for other, inner in enumerate(seen) if inner < outer) for outer in seen
        )

    @cached_property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """The columns each expert may see, group by group."""
        return self.columns_of({group.name: group.columns for group in self.groups})

    def columns_of(self, groups: Mapping[str, Iterable[int]]) -> tuple[tuple[int, ...], ...]:
        """The same of other rows, where some of the groups lie elsewhere and others are not."""
        for name in groups:
            if name not in self.group_names:
                raise InputError(
                    f"There is no group '{name}': {did_you_mean(name, self.group_names)}"
                )
        elsewhere = tuple(Group(name, _columns(name, columns)) for name, columns in groups.items())
        _check_columns(elsewhere)
        places = {group.name: group.columns for group in elsewhere}
        return tuple(
            tuple(
                column
                for group, seen in zip(self.groups, row, strict=True)
                if seen
                for column in places.get(group.name, ())
            )
            for row in self.sees
        )

    def as_one(self) -> Family:
        """One expert that sees all groups."""
        return Family(self.groups, (Subset("all", self.group_names),))

    def expert(self, name: str) -> int:
        """The number of the expert of that name."""
        if name not in self.names:
            raise InputError(f"There is no subset '{name}': {did_you_mean(name, self.names)}")
        return self.names.index(name)


def _columns(group: str, columns: Iterable[int]) -> tuple[int, ...]:
    listed = _listed(f"The group '{group}'", "columns", columns)
    return tuple(_column(group, column) for column in listed)


def _column(group: str, column: int) -> int:
    """As a plain number, of whatever kind of whole numbers it was."""
    try:
        return index(column)
    except TypeError:
        raise InputError(
            f"The group '{group}' has the column {column!r}; columns are whole numbers from 0 on."
        ) from None


def _listed(whose: str, what: str, given: Iterable[T]) -> list[T]:
    """A text would be taken letter by letter."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"{whose} needs a list of {what}, not {given!r}.")
    return list(given)


def _check_groups(groups: tuple[Group, ...]) -> None:
    if not groups:
        raise InputError("A family needs at least one group.")
    twice = _first_twice(group.name for group in groups)
    if twice is not None:
        raise InputError(f"The group '{twice}' is there twice; give one of them another name.")
    _check_columns(groups)


def _check_columns(groups: tuple[Group, ...]) -> None:
    """An expert that sees a group sees nothing of another's by it."""
    for group in groups:
        if not group.columns:
            raise InputError(f"The group '{group.name}' has no column; name one or leave it out.")
        if min(group.columns) < 0:
            least = min(group.columns)
            raise InputError(
                f"The group '{group.name}' has the column {least}; columns count from 0."
            )
    shared = _first_twice(column for group in groups for column in group.columns)
    if shared is not None:
        owners = [group.name for group in groups for column in group.columns if column == shared]
        raise InputError(
            f"The column {shared} is in '{owners[0]}' and again in '{owners[1]}'; a column "
            "belongs to one group, once."
        )


def _check_subsets(groups: tuple[Group, ...], subsets: tuple[Subset, ...]) -> None:
    known = [group.name for group in groups]
    twice = _first_twice(subset.name for subset in subsets)
    if twice is not None:
        raise InputError(f"The subset '{twice}' is there twice; give one of them another name.")
    by_groups: dict[frozenset[str], str] = {}
    for subset in subsets:
        _check_subset(subset, known)
        same = by_groups.setdefault(frozenset(subset.groups), subset.name)
        if same != subset.name:
            raise InputError(
                f"The subsets '{same}' and '{subset.name}' hold the same groups; leave one out."
            )


def _check_subset(subset: Subset, known: list[str]) -> None:
    if not subset.groups:
        raise InputError(f"The subset '{subset.name}' is empty; an expert must see some group.")
    for group in subset.groups:
        if group not in known:
            raise InputError(
                f"The subset '{subset.name}' holds the unknown group '{group}': "
                f"{did_you_mean(group, known)}"
            )
    twice = _first_twice(subset.groups)
    if twice is not None:
        raise InputError(f"The subset '{subset.name}' holds the group '{twice}' twice.")


def _check_top(groups: tuple[Group, ...], subsets: tuple[Subset, ...]) -> None:
    """What simple experts leave over must have somewhere to go."""
    if not any(len(subset.groups) == len(groups) for subset in subsets):
        names = ", ".join(group.name for group in groups)
        raise InputError(f"No subset holds all groups; add one of {names}.")


def _first_twice(names: Iterable[str | int]) -> str | int | None:
    """The first that occurs more than once, or nothing."""
    return next((name for name, count in Counter(names).items() if count > 1), None)
