"""Options for reading a source, and the guesses for options that are not given."""

from __future__ import annotations

import re
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from whence.data.readers.dates import SHOWN, FirstValues, dated_columns, unused_dates
from whence.errors import InputError, did_you_mean
from whence.text import one_line, shortened

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
"""Known column names in lower case without punctuation, the most likely first."""
SHOWN_NAMES = 30
NEEDED = ("user", "item")
NOT_USED = "none"
OF_REVIEWS = {"text", "reviewtext", "summary", "reviewbody"}
"""Next to such a column, `title` is the title of a review and not of the item."""
FORMATS = ("delimited", "sequences", "json", "literals", "parquet")


@dataclass(frozen=True)
class ReadOptions:
    """How to read a source. Options left out are guessed; the column "none" is not used."""

    user: str | None = None
    item: str | None = None
    time: str | None = None
    rating: str | None = None
    title: str | None = None
    items: str | Path | Frame | None = None
    """A file or frame of item features, one row per item."""
    users: str | Path | Frame | None = None
    """A file or frame of user features, one row per user."""
    query: str | None = None
    """The SELECT whose rows are the events, for a database."""
    format: str | None = None
    """One of FORMATS, to override the detected format."""
    header: bool | None = None
    """Whether the first row of a delimited file names the columns."""
    encoding: str = "utf-8"
    """The encoding of text files that are not UTF-8."""
    keep_duplicates: bool = False
    """Keep rows that are equal in user, item, time and rating."""
    verb: str | None = None
    """What users do with items: watched, bought, played."""

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise InputError(
                f"There is no format '{self.format}': {did_you_mean(self.format, FORMATS)}"
            )
        try:
            "".encode(self.encoding)
        except (LookupError, UnicodeError, ValueError):  # a name may hold a NUL character
            raise InputError(
                f"There is no encoding '{self.encoding}'. Common ones are utf-8 and latin-1."
            ) from None

    def changed_fields(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        defaults = {field.name: field.default for field in fields(self)}
        return {
            name: value
            for name, value in values.items()
            if isinstance(value, Frame) or value != defaults[name]
        }

    def given_columns(self) -> dict[str, str]:
        """Return role to column name, for the columns that were given."""
        return {role: name for role in GUESSES if (name := getattr(self, role)) is not None}


@runtime_checkable
class Frame(Protocol):
    """A table in memory that exports an Arrow stream, as pandas, Polars and Arrow do."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the Arrow C stream of its rows."""


class Tabular(ABC):
    """A table of events in a file, a frame or a database."""

    @property
    @abstractmethod
    def place(self) -> str:
        """The name of the source in messages."""

    @property
    def first_row(self) -> int:
        """The number of the first row of values, as a person counts."""
        return 1

    @property
    def in_order(self) -> bool:
        """Whether the rows are in a meaningful order."""
        return True

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of the columns."""

    def guesses(self) -> dict[str, str]:
        """Return role to column name, guessed by the names."""
        return guess_roles(self.names())

    @abstractmethod
    def read(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """Return these columns; the columns `ids` stay as written, so that 007 stays 007."""

    def distinct_names(self) -> list[str]:
        """Return the names of the columns, or raise if one occurs twice."""
        names = self.names()
        for name, count in Counter(names).items():
            if count > 1:
                raise InputError(
                    f"{self.place} has two columns '{shortened(name, SHOWN)}'. Rename one of them."
                )
        return names

    def note_on_names(self) -> str:
        """Return a hint for messages about unknown column names."""
        return ""

    def first_values(self) -> FirstValues:
        """Return the first values of the columns that may hold dates."""
        return {}

    def dated(self) -> list[str]:
        """Return the columns that hold only dates, judged by the first rows."""
        return dated_columns(self.first_values())

    def roles(self, reading: ReadOptions) -> dict[str, str]:
        """Return role to column name, as given or else as guessed."""
        names, given = self.distinct_names(), reading.given_columns()
        if reading.items is not None and given.get("title") not in (NOT_USED, *names):
            given.pop("title", None)  # the column is in the items' table
        for role, name in given.items():
            given[role] = self._column(name, role, names)
        taken = set(given.values())
        guessed = {role: name for role, name in self.guesses().items() if name not in taken}
        roles = {**guessed, **given}
        if "time" not in roles:
            roles |= self._guess_time(set(roles.values()))
        roles = {role: name for role, name in roles.items() if name != NOT_USED}
        for need in NEEDED:
            if need not in roles:
                raise InputError(
                    f"{self.place}: which column is the {need}? Give {option(need)}. The columns "
                    f"are {listed(names)}{self.note_on_names()}."
                )
        if roles["user"] == roles["item"]:
            raise InputError(
                f"{self.place}: the column '{roles['user']}' cannot be both user and item."
            )
        return roles

    def _column(self, given: str, role: str, names: Sequence[str]) -> str:
        """Return a column given by its name, or by its number from 1."""
        if given in names or given == NOT_USED:
            return given
        if given.isdecimal() and 1 <= int(given) <= len(names):
            return names[int(given) - 1]
        raise InputError(
            f"{self.place} has no column '{given}' for the {role}. It has {listed(names)}."
        )

    def _guess_time(self, taken: Collection[str]) -> dict[str, str]:
        """Return the only column of dates, whatever its name."""
        dated = [name for name in self.dated() if name not in taken]
        if len(dated) > 1:
            raise InputError(
                f"{self.place}: which of {listed(dated)} is the time? Give {option('time')}, or "
                "--time none to use the order of the rows."
            )
        return {"time": dated[0]} if dated else {}

    def warn_of_unused_dates(self, roles: Mapping[str, str]) -> None:
        """Warn if rows are taken in their order although a column seems to hold dates."""
        free = {
            name: values
            for name, values in self.first_values().items()
            if name not in roles.values()
        }
        if note := unused_dates(free, self.first_row):
            warnings.warn(
                one_line(
                    f"{self.place}: {note}. The order of the rows is used as the order of the "
                    "events. Write the dates as 2026-01-31 or 2026-01-31T18:30:00Z and name their "
                    "column with --time, or give --time none to silence this note."
                ),
                stacklevel=2,
            )


def listed(names: Sequence[str]) -> str:
    """Return the names of columns for a message, of many only the first."""
    shown = [shortened(name, SHOWN) for name in names[:SHOWN_NAMES]]
    return ", ".join([*shown, "…"] if len(names) > SHOWN_NAMES else shown)


def option(name: str) -> str:
    """Return how to give an option, on the command line and in Python."""
    return f"--{name} NAME (in Python ReadOptions({name}=…))"


@dataclass(frozen=True)
class FileTable(Tabular):
    """The rows of a file."""

    path: Path

    @property
    def place(self) -> str:
        """The path of the file."""
        return str(self.path)


def bare(name: str) -> str:
    """Return the name of a column in lower case without punctuation, as in GUESSES."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def guess_roles(names: Sequence[str]) -> dict[str, str]:
    """Return role to the most likely of these columns."""
    known = {bare(name): name for name in reversed(names)}
    guessed = {
        role: next(known[guess] for guess in guesses if guess in known)
        for role, guesses in GUESSES.items()
        if not known.keys().isdisjoint(guesses)
    }
    if not OF_REVIEWS.isdisjoint(known):
        guessed.pop("title", None)
    return guessed
