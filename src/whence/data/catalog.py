"""The items: raw ids in and out, and titles that a person can type."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from whence.arrays import Bools, Ints
from whence.errors import COMPARED_CHARACTERS, InputError
from whence.text import visible

ARTICLES = ("the", "a", "an")
LONGEST_TITLE = 1_000
"""Only the start of a longer title is searched, except for the exact title."""
MIN_SIMILARITY = 0.85
"""A title with a typing error counts as a match from this similarity (0 to 1) on."""
MIN_PREFIX = 3
"""The first letters of a title count as a match from this length on."""
COMPARED = 50
"""How many titles are compared letter by letter, after a quick look at all."""
SUGGESTED = 5
EVENTS_COLUMN = "_events"
"""In the catalog file of a run: the number of events of each item."""


@dataclass(frozen=True, eq=False, repr=False)
class Catalog:
    """A table with the raw id in the column `item` and, if known, `title` and features.

    The row number of an item is its index everywhere in Whence.
    """

    table: pa.Table
    popularity: Ints | None = None
    """The number of events of each item, which ranks titles that match equally well."""

    def __len__(self) -> int:
        """Return the number of items."""
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        return visible(f"Catalog: {len(self):,} items with {', '.join(self.table.column_names)}")

    def raw_ids(self, items: Sequence[int] | npt.NDArray[np.integer[Any]]) -> list[Any]:
        """Return the raw ids of these items."""
        return list(self.table["item"].take(pa.array(items, pa.int64())).to_pylist())

    def labels(self, items: Sequence[int] | npt.NDArray[np.integer[Any]]) -> list[str]:
        """Return the titles, or "item <id>" for items without one."""
        ids = self.raw_ids(items)
        if "title" not in self.table.column_names:
            return [f"item {raw}" for raw in ids]
        titles = self.table["title"].take(pa.array(items, pa.int64())).to_pylist()
        return [title or f"item {raw}" for title, raw in zip(titles, ids, strict=True)]

    def find(self, text: str) -> int:
        """Return the item with this id or, if no id matches, with this title."""
        text = text.encode(errors="replace").decode()  # bytes of a command line that are no text
        by_id = index_of_id(self.table["item"], text)
        if by_id is not None:
            return by_id
        if "title" not in self.table.column_names:
            raise InputError(
                f"No item has the id '{text}', and these data have no titles. Check the id."
            )
        found = self._titles.find(text)
        if len(found) == 1:
            return found[0]
        if found:
            more = f"; the {SUGGESTED} most popular are" if len(found) > SUGGESTED else ":"
            raise InputError(
                f"'{text}' matches {len(found):,} items{more} {self._listed(found)}. "
                "Give the full title or the id."
            )
        near = self._titles.suggest(text)
        hint = f"Did you mean {self._listed(near)}?" if near else "No title is similar."
        raise InputError(f"No item matches '{text}'. {hint}")

    def to_table(self) -> pa.Table:
        """Return the table with the popularity as one more column, as run folders hold it."""
        if self.popularity is None:
            return self.table
        return self.table.append_column(EVENTS_COLUMN, pa.array(self.popularity))

    @classmethod
    def from_table(cls, table: pa.Table) -> Catalog:
        """Return the catalog that `to_table` wrote."""
        if EVENTS_COLUMN not in table.column_names:
            return cls(table)
        events = table[EVENTS_COLUMN]
        if not pa.types.is_integer(events.type) or events.null_count:
            raise InputError("The numbers of events in the catalog must be whole numbers.")
        return cls(table.drop_columns(EVENTS_COLUMN), events.to_numpy())

    def _listed(self, items: Sequence[int]) -> str:
        shown = items[:SUGGESTED]
        labels = zip(self.labels(shown), self.raw_ids(shown), strict=True)
        return ", ".join(f"'{label}' (id {raw})" for label, raw in labels)

    @cached_property
    def _titles(self) -> _TitleIndex:
        return _TitleIndex(self.table["title"].to_pylist(), self.popularity)


class _TitleIndex:
    """Finds titles as people type them. Items may lack a title."""

    def __init__(self, titles: Sequence[str | None], popularity: Ints | None) -> None:
        known = [title or "" for title in titles]
        self.popularity = np.zeros(len(known)) if popularity is None else popularity
        self.lower = np.array([title.lower() for title in known], dtype=object)
        self.with_article = np.array([simplify(title, articles=True) for title in known], object)
        self.simple = np.array([simplify(title) for title in known], dtype=object)
        self.short = np.array([simplify(_without_brackets(title)) for title in known], dtype=object)
        self._arrow = pa.array([f" {title} " for title in self.simple], pa.string())

    def find(self, text: str, dated: bool = True) -> list[int]:
        """Return the matches, the most popular first: one, several, or none.

        The first rule with a match decides:

        1. the exact title, except for case;
        2. the title without punctuation, accents and year;
        3. the title without articles and text in brackets;
        4. the first letters, or all words;
        5. the year without brackets, unless `dated` is off;
        6. one title with a typing error.
        """
        wanted = simplify(text)
        for matches in (
            (self.lower == text.lower()) & bool(text),
            (self.with_article == simplify(text, articles=True)) & bool(wanted),
            ((self.simple == wanted) | (self.short == wanted)) & bool(wanted),
            self._starts_with(wanted) | self._has_all_words(wanted),
        ):
            if matches.any():
                return self._by_popularity(np.flatnonzero(matches).tolist())
        undated, year = _bare_year(text)
        if dated and year:
            same = self.find(undated, dated=False)
            if same := [item for item in same if f"({year})" in self.lower[item]]:
                return same
        near = self.suggest(text)
        similarity = [self._similarity(wanted, item) for item in near[:2]]
        clear = len(similarity) == 1 or (len(similarity) == 2 and similarity[0] > similarity[1])
        return near[:1] if clear and similarity[0] >= MIN_SIMILARITY else []

    def suggest(self, text: str) -> list[int]:
        """Return the most similar titles, by the letter pairs they share with the text."""
        wanted = simplify(text)[:COMPARED_CHARACTERS]
        shared = np.zeros(len(self.simple))
        for pair in {wanted[start : start + 2] for start in range(len(wanted) - 1)}:
            shared += self._contains(pair)
        dice = shared / (len(wanted) + pc.utf8_length(self._arrow).to_numpy())
        candidates = np.argsort(-dice, kind="stable")[:COMPARED]
        candidates = candidates[shared[candidates] > 0]
        ranked = sorted(
            self._by_popularity(candidates.tolist()),
            key=lambda item: -self._similarity(wanted, item),
        )
        return ranked[:SUGGESTED]

    def _by_popularity(self, items: Iterable[int]) -> list[int]:
        return sorted(items, key=lambda item: -self.popularity[item])

    def _starts_with(self, wanted: str) -> Bools:
        if len(wanted) < MIN_PREFIX:
            return np.zeros(len(self.simple), dtype=bool)
        found: Bools = pc.starts_with(self._arrow, f" {wanted}").to_numpy(zero_copy_only=False)
        return found

    def _has_all_words(self, wanted: str) -> Bools:
        found = np.full(len(self.simple), bool(wanted))
        for word in wanted.split():
            found &= self._contains(f" {word} ")
        return found

    def _contains(self, text: str) -> Bools:
        found: Bools = pc.match_substring(self._arrow, text).to_numpy(zero_copy_only=False)
        return found

    def _similarity(self, wanted: str, item: int) -> float:
        # The time grows with the square of the length.
        one, other = (text[:COMPARED_CHARACTERS] for text in (wanted, self.simple[item]))
        return difflib.SequenceMatcher(None, one, other).ratio()


def simplify(title: str, articles: bool = False) -> str:
    """Return a title as people type it: "Matrix, The (1999)" becomes "matrix"."""
    bare = unicodedata.normalize("NFKD", _without_year(title[:LONGEST_TITLE])).casefold()
    bare = "".join(letter for letter in bare if not unicodedata.combining(letter))
    start, comma, last = bare.rstrip().rpartition(", ")
    if comma and last in ARTICLES:
        bare = f"{last} {start}"
    words = " ".join(re.findall(r"\w+", bare))
    first, _, others = words.partition(" ")
    return others if others and first in ARTICLES and not articles else words


# These scan a title once from its end. Regular expressions for the same would try every start.
def _without_brackets(title: str) -> str:
    """Return the title without the text in brackets at its end."""
    end = len(title.rstrip())
    while end and title[end - 1] == ")":
        start = title.rfind("(", 0, end)
        if start < 0 or title.find(")", start, end - 1) >= 0:
            break
        end = start
        while end and title[end - 1].isspace():
            end -= 1
    return title[:end]


def _without_year(title: str) -> str:
    """Return the title without a year in brackets at its end."""
    bare = title.rstrip()
    year = bare[-5:-1]
    if len(year) == 4 and year.isdecimal() and bare[-6:] == f"({year})":
        return bare[:-6].rstrip()
    return title


def _bare_year(text: str) -> tuple[str, str]:
    """Return the text before a year at its end, and the year, if there is one."""
    start, year = text.rstrip()[:-4], text.rstrip()[-4:]
    if len(year) == 4 and year.isdecimal() and start[-1:].isspace():
        return start.rstrip(), year
    return text, ""


def index_of_id(ids: pa.ChunkedArray, raw: object) -> int | None:
    """Return the row whose raw id is `raw`, read as the type of the column."""
    try:
        wanted = pa.scalar(raw).cast(ids.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, UnicodeEncodeError):
        return None
    index = pc.index(ids, wanted).as_py()
    return None if index < 0 else int(index)
