"""What a user can say about a source, and what is guessed of the rest."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from whence.errors import InputError, did_you_mean

GUESSES = {
    "user": (
        "userid user username uid customerid customer reviewerid reviewer visitorid visitor "
        "memberid member accountid account buyerid buyer clientid client personid sessionid session"
    ).split(),
    "item": (
        "itemid item iid movieid movie productid product sku asin trackid track songid song bookid "
        "book isbn articleid article gameid game appid artistid artist videoid video newsid "
        "businessid"
    ).split(),
    "time": (
        "time timestamp ts unixreviewtime datetime date createdat purchasedat boughtat orderedat "
        "playedat watchedat ratedat orderdate purchasedate eventtime at"
    ).split(),
    "rating": "rating stars overall score".split(),
    "title": "title itemtitle itemname movietitle productname".split(),
}
"""Column names in letters alone, the likeliest first."""
NEEDED = ("user", "item")
NOT_USED = "none"
OF_REVIEWS = {"text", "reviewtext", "summary", "reviewbody"}
"""Beside such a column, `title` heads the review and does not name the item."""
FORMATS = ("delimited", "sequences", "json", "literals", "parquet")


@dataclass(frozen=True)
class ReadOptions:
    """How to read a source; what is left out is guessed, and a column "none" is not used."""

    user: str | None = None
    item: str | None = None
    time: str | None = None
    rating: str | None = None
    title: str | None = None
    items: str | Path | Frame | None = None
    """A file or a frame of item features, one row an item."""
    users: str | Path | Frame | None = None
    """A file or a frame of user features, one row a user."""
    query: str | None = None
    """For a database: the SELECT whose rows are the events."""
    format: str | None = None
    """One of FORMATS, where a file is not what it looks like."""
    header: bool | None = None
    """Whether the first row of a delimited file names the columns."""
    encoding: str = "utf-8"
    """Of text files that are not UTF-8."""
    keep_duplicates: bool = False
    """Keep rows that are equal in user, item, time and rating."""
    verb: str | None = None
    """What users do with items, for sentences: watched, bought, played."""

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise InputError(f"No format is '{self.format}': {did_you_mean(self.format, FORMATS)}")
        try:
            "".encode(self.encoding)
        except (LookupError, UnicodeError):
            raise InputError(
                f"No encoding is '{self.encoding}'; utf-8 and latin-1 are the usual ones."
            ) from None

    def said(self) -> dict[str, Any]:
        """What is not left at its default."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        defaults = {field.name: field.default for field in fields(self)}
        return {
            name: value
            for name, value in values.items()
            if isinstance(value, Frame) or value != defaults[name]
        }

    def told(self) -> dict[str, str]:
        """Role to column name, for the roles that were told."""
        return {role: name for role in GUESSES if (name := getattr(self, role)) is not None}


@runtime_checkable
class Frame(Protocol):
    """A table in memory that can hand its columns over, as pandas, Polars and Arrow can."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow C stream of its rows."""


class Tabular(ABC):
    """Rows of events with columns, in a file, a frame or a database."""

    @property
    @abstractmethod
    def place(self) -> str:
        """How sentences name it."""

    @property
    def first_row(self) -> int:
        """The number a person gives to its first row of values."""
        return 1

    @property
    def in_order(self) -> bool:
        """Whether the order of the rows means anything."""
        return True

    @abstractmethod
    def names(self) -> list[str]:
        """The columns it has."""

    def guesses(self) -> dict[str, str]:
        """Role to column name, by the columns' names."""
        return guess_roles(self.names())

    @abstractmethod
    def read(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """These columns; the values of `ids` just as they are written, so that 007 stays 007."""

    def distinct_names(self) -> list[str]:
        """The columns, each there once."""
        names = self.names()
        for name, count in Counter(names).items():
            if count > 1:
                raise InputError(f"{self.place} has two columns '{name}'; rename one of them.")
        return names

    def note_on_names(self) -> str:
        """What to add where the columns' names are not understood."""
        return ""

    def dated(self) -> list[str]:
        """The columns that hold nothing but dates, as far as one sees without reading all."""
        return []

    def roles(self, reading: ReadOptions) -> dict[str, str]:
        """Role to column name: as told, else as guessed."""
        names, told = self.distinct_names(), reading.told()
        if reading.items is not None and told.get("title") not in (NOT_USED, *names):
            told.pop("title", None)  # it is told of the items' table
        for role, name in told.items():
            told[role] = self._column(name, role, names)
        taken = set(told.values())
        guessed = {role: name for role, name in self.guesses().items() if name not in taken}
        roles = {**guessed, **told}
        if "time" not in roles:
            roles |= self._time_by_its_looks(set(roles.values()))
        roles = {role: name for role, name in roles.items() if name != NOT_USED}
        for need in NEEDED:
            if need not in roles:
                raise InputError(
                    f"{self.place}: which column is the {need}? Say {option(need)}; it has "
                    f"{', '.join(names)}{self.note_on_names()}."
                )
        if roles["user"] == roles["item"]:
            raise InputError(f"{self.place}: '{roles['user']}' cannot be both user and item.")
        return roles

    def _column(self, told: str, role: str, names: Sequence[str]) -> str:
        """A column told by its name, or by its number from 1."""
        if told in names or told == NOT_USED:
            return told
        if told.isdecimal() and 1 <= int(told) <= len(names):
            return names[int(told) - 1]
        raise InputError(
            f"{self.place} has no column '{told}' for the {role}; it has {', '.join(names)}."
        )

    def _time_by_its_looks(self, taken: Collection[str]) -> dict[str, str]:
        """The one column of dates, whatever its name."""
        dated = [name for name in self.dated() if name not in taken]
        if len(dated) > 1:
            raise InputError(
                f"{self.place}: which of {', '.join(dated)} is the time? Say {option('time')}; "
                "--time none takes the rows in their order."
            )
        return {"time": dated[0]} if dated else {}


def option(name: str) -> str:
    """How to tell something, on the command line and in Python."""
    return f"--{name} NAME (in Python ReadOptions({name}=…))"


@dataclass(frozen=True)
class FileTable(Tabular):
    """Rows of a file."""

    path: Path

    @property
    def place(self) -> str:
        """The file."""
        return str(self.path)


def bare(name: str) -> str:
    """A column's name in small letters and digits, as the guesses have it."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def guess_roles(names: Sequence[str]) -> dict[str, str]:
    """Role to the likeliest of these columns."""
    known = {bare(name): name for name in reversed(names)}
    guessed = {
        role: next(known[guess] for guess in guesses if guess in known)
        for role, guesses in GUESSES.items()
        if not known.keys().isdisjoint(guesses)
    }
    if not OF_REVIEWS.isdisjoint(known):
        guessed.pop("title", None)
    return guessed
