"""The items: raw ids in and out, titles a person can type."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from whence.arrays import Bools
from whence.errors import InputError

BRACKETS = re.compile(r"(\s*\([^()]*\))+\s*$")
YEAR = re.compile(r"\s*\(\d{4}\)\s*$")
ARTICLE = re.compile(r"^(?:the|a|an) ")
ARTICLE_LAST = re.compile(r"^(.*), (the|a|an)\s*$")
ALIKE_ENOUGH = 0.85
"""From this likeness on (0 to 1), a title typed slightly wrong is taken for the one meant."""
COMPARED = 50
"""How many titles are compared letter by letter, after a quick look at all."""


class Titles:
    """An index over the titles of a catalog; some items may have none."""

    def __init__(self, titles: Sequence[str | None]) -> None:
        known = [title or "" for title in titles]
        self.lower = np.array([title.lower() for title in known], dtype=object)
        self.spoken = np.array([plain(title, articles=True) for title in known], dtype=object)
        self.plain = np.array([plain(title) for title in known], dtype=object)
        self.short = np.array([plain(BRACKETS.sub("", title)) for title in known], dtype=object)
        self._arrow = pa.array([f" {title} " for title in self.plain], pa.string())

    def find(self, text: str) -> list[int]:
        """The items that can be meant: one if it is clear, several if it is not, or none.

        First those with exactly this title but for case; then without regard to punctuation,
        accents and the year; then to articles and whatever else stands in brackets at the end;
        then the only one with all these words; then one near miss.
        """
        wanted = plain(text)
        for same in (
            self.lower == text.lower(),
            (self.spoken == plain(text, articles=True)) & (wanted != ""),
            ((self.plain == wanted) | (self.short == wanted)) & (wanted != ""),
        ):
            if same.any() and text:
                return [int(item) for item in np.flatnonzero(same)]
        near = self.suggest(text)
        with_words = np.flatnonzero(self._with_all_words(wanted))
        if len(with_words) == 1:
            return [int(with_words[0])]
        likeness = [self._likeness(wanted, item) for item in near[:2]]
        clear = len(likeness) == 1 or (len(likeness) == 2 and likeness[0] > likeness[1])
        return near[:1] if clear and likeness[0] >= ALIKE_ENOUGH else []

    def suggest(self, text: str, top: int = 5) -> list[int]:
        """The nearest titles: those with all the words, then those with most letter pairs."""
        wanted = plain(text)
        pairs = {wanted[start : start + 2] for start in range(len(wanted) - 1)}
        shared = np.zeros(len(self.plain))
        for pair in pairs:
            shared += self._contains(pair)
        dice = shared / (len(wanted) + pc.utf8_length(self._arrow).to_numpy())
        dice += self._with_all_words(wanted)
        candidates = np.argsort(-dice, kind="stable")[:COMPARED]
        candidates = candidates[shared[candidates] > 0]
        ranked = sorted(
            (int(item) for item in candidates),
            key=lambda item: (-np.floor(dice[item]), -self._likeness(wanted, item)),
        )
        return ranked[:top]

    def _with_all_words(self, wanted: str) -> Bools:
        found = np.full(len(self.plain), bool(wanted))
        for word in wanted.split():
            found &= self._contains(f" {word} ")
        return found

    def _contains(self, text: str) -> Bools:
        found: Bools = pc.match_substring(self._arrow, text).to_numpy(zero_copy_only=False)
        return found

    def _likeness(self, wanted: str, item: int) -> float:
        return difflib.SequenceMatcher(None, wanted, self.plain[item]).ratio()


def plain(title: str, articles: bool = False) -> str:
    """A title as people type it: "Matrix, The (1999)" becomes "matrix"."""
    bare = unicodedata.normalize("NFKD", YEAR.sub("", title)).casefold()
    bare = "".join(letter for letter in bare if not unicodedata.combining(letter))
    bare = ARTICLE_LAST.sub(r"\2 \1", bare)
    words = " ".join(re.findall(r"\w+", bare))
    return words if articles else ARTICLE.sub("", words)


# ...


@dataclass(frozen=True)
class Catalog:
    """A table with the raw id in the column `item` and, where known, `title` and features.

    An item's row number is its index everywhere inside Whence.
    """

    table: pa.Table

    def __len__(self) -> int:
        """How many items."""
        return int(self.table.num_rows)

    def raw_ids(self, items: Sequence[int] | npt.NDArray[np.integer[Any]]) -> list[Any]:
        """The users' own ids of these items."""
        return list(self.table["item"].take(pa.array(items, pa.int64())).to_pylist())

    def labels(self, items: Sequence[int] | npt.NDArray[np.integer[Any]]) -> list[str]:
        """Titles, with "item <id>" where there is none."""
        ids = self.raw_ids(items)
        if "title" not in self.table.column_names:
            return [f"item {raw}" for raw in ids]
        titles = self.table["title"].take(pa.array(items, pa.int64())).to_pylist()
        return [title or f"item {raw}" for title, raw in zip(titles, ids, strict=True)]

    def find(self, text: str) -> int:
        """The item meant by an id or a title, typed exactly or nearly; an id goes first."""
        by_id = index_of_id(self.table["item"], text)
        if by_id is not None:
            return by_id
        if "title" not in self.table.column_names:
            raise InputError(f"No item has the id '{text}', and these data have no titles.")
        found = self._titles.find(text)
        if len(found) == 1:
            return found[0]
        near = (found or self._titles.suggest(text))[:5]
        labels = zip(self.labels(near), self.raw_ids(near), strict=True)
        suggestions = ", ".join(f"'{label}' (id {raw})" for label, raw in labels)
        raise InputError(
            f"No single item is '{text}'. "
            + (f"Did you mean {suggestions}?" if near else "No title is like it.")
        )

    @cached_property
    def _titles(self) -> Titles:
        return Titles(self.table["title"].to_pylist())


def index_of_id(ids: pa.ChunkedArray, raw: object) -> int | None:
    """The row whose raw id is `raw`; a text is read as the column's own type."""
    try:
        wanted = pa.scalar(raw).cast(ids.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError):
        return None
    index = pc.index(ids, wanted).as_py()
    return None if index < 0 else int(index)
