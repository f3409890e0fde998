"""Entries by name, declared once: the command line, the documentation and the tests follow them.

Installed packages can add entries through entry points. Whence loads one when somebody lists the
registry or looks the entry up, and never before.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import walk_packages
from typing import Final, Generic, TypeVar, cast

from whence.errors import InputError, did_you_mean, nearest

T = TypeVar("T")

MIDDLE: Final = 500
"""The place of entries that do not name one."""


class UnknownEntryError(InputError, KeyError):
    """A look-up that found nothing, with the nearest names."""

    __str__ = Exception.__str__  # a KeyError would print its message in quotes


@dataclass(frozen=True)
class _Entry(Generic[T]):
    value: T
    place: float
    tags: frozenset[str]


class Registry(Mapping[str, T]):
    """A read-only mapping from names to entries; `add` declares one.

    Look-ups ignore capitals, read `_` as `-`, and know aliases. An unknown name raises an
    `InputError` that suggests similar ones.

    `kind` says what an entry is, for messages. `package` is a package whose modules declare entries
    when they are imported. `group` is the group of entry points of other packages. `accept` turns
    what such an entry point holds into an entry, or raises an `InputError`.
    """

    def __init__(
        self,
        kind: str,
        *,
        package: str | None = None,
        group: str | None = None,
        accept: Callable[[str, object], T] | None = None,
    ) -> None:
        self.kind = kind
        self._package = package
        self._group = group
        self._accept = accept
        self._entries: dict[str, _Entry[T]] = {}
        self._aliases: dict[str, str] = {}

    def add(
        self,
        name: str,
        entry: T,
        *,
        aliases: tuple[str, ...] = (),
        tags: tuple[str, ...] = (),
        place: float = MIDDLE,
    ) -> T:
        """Declare an entry and return it.

        Entries are listed by `place`; equal places keep the order of declaration.
        """
        for one in (name, *aliases):
            if _plain(one) in (*self._entries, *self._aliases):
                raise ValueError(f"There are two {self.kind}s called '{one}'.")
        self._entries[_plain(name)] = _Entry(entry, place, frozenset(tags))
        self._aliases |= {_plain(alias): _plain(name) for alias in aliases}
        return entry

    def __getitem__(self, name: str) -> T:
        return self._entries[self.name_of(name)].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed())

    def __len__(self) -> int:
        return len(self._listed())

    def name_of(self, name: str) -> str:
        """Return the name that `name` stands for: in lower case, and never an alias."""
        self._import_modules()
        wanted = _plain(name)
        wanted = self._aliases.get(wanted, wanted)
        if wanted in self._entries:
            return wanted
        if wanted in self._plugins:
            self._load(wanted)
            return wanted
        names = {*self._entries, *self._plugins}
        known = {*names, *self._aliases} if nearest(name, self._aliases) else names
        raise UnknownEntryError(f"There is no {self.kind} '{name}': {did_you_mean(name, known)}")

    def tagged(self, tag: str) -> list[str]:
        """Return the names of the entries with a tag, in order."""
        return [name for name in self._listed() if tag in self._entries[name].tags]

    def _listed(self) -> list[str]:
        """Return all names in order; a plug-in that cannot be loaded is left out with a warning."""
        self._import_modules()
        for name in [one for one in self._plugins if one not in self._entries]:
            try:
                self._load(name)
            except InputError as problem:
                warnings.warn(str(problem), stacklevel=3)
                del self._plugins[name]
        return sorted(self._entries, key=lambda name: self._entries[name].place)

    def _import_modules(self) -> None:
        """Import all modules of the package, so that they declare their entries."""
        if self._package is None:
            return
        package, self._package = self._package, None
        for module in walk_packages(import_module(package).__path__, f"{package}."):
            import_module(module.name)

    @cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        """Entry points of other packages by name; the names declared here come first."""
        if self._group is None:
            return {}
        found: dict[str, EntryPoint] = {}
        for one in sorted(entry_points(group=self._group), key=_package_of):
            name = _plain(one.name)
            if name in (*self._entries, *self._aliases, *found):
                warnings.warn(
                    f"The {self.kind} '{one.name}' of the package {_package_of(one)} is ignored: "
                    "another has this name.",
                    stacklevel=4,
                )
            else:
                found[name] = one
        return found

    def _load(self, name: str) -> None:
        """Load what an entry point names; one sentence says which package is broken."""
        point = self._plugins[name]
        try:
            entry = point.load()
            accepted = self._accept(name, entry) if self._accept else cast("T", entry)
        except Exception as problem:
            raise InputError(
                f"The {self.kind} '{point.name}' of the package {_package_of(point)} cannot be "
                f"loaded ({type(problem).__name__}: {problem}). Update or uninstall the package."
            ) from problem
        self._entries[name] = _Entry(accepted, math.inf, frozenset())


def _plain(name: str) -> str:
    """Return the name as it is compared: in lower case, with `-` between words."""
    return name.strip().lower().replace("_", "-")


def _package_of(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "unknown"
