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

from whence.errors import InputError

YEAR = re.compile(r"\s*\(\d{4}\)\s*$")
BRACKETS = re.compile(r"\s*\(.*\)\s*$")
ARTICLE = re.compile(r"^(?:the|a|an) | (?:the|a|an)$")
ALIKE_ENOUGH = 0.85
"""From this likeness on (0 to 1), a title typed slightly wrong is taken for the one meant."""


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
        """The item meant by an id or a title, typed exactly or nearly.

        An id goes first, then a title without regard to case, punctuation, accents, articles or
        what stands in brackets at its end; then the most similar title, if it is similar enough
        and alone.
        """
        by_id = index_of_id(self.table["item"], text)
        if by_id is not None:
            return by_id
        if "title" not in self.table.column_names:
            raise InputError(f"No item has the id '{text}', and these data have no titles.")
        exact = pc.index(pc.utf8_lower(self.table["title"]), text.lower()).as_py()
        if exact >= 0:
            return int(exact)
        titles, short_titles = self._plain_titles
        same = np.flatnonzero((titles == plain(text)) | (short_titles == plain(text))).tolist()
        likeness, near = ([1.0] * len(same), same) if same else self._similar(text)
        alone = len(near) == 1 or (len(near) > 1 and likeness[0] > likeness[1])
        if alone and likeness[0] >= ALIKE_ENOUGH:
            return int(near[0])
        suggestions = ", ".join(f"'{label}'" for label in self.labels(near[:5]))
        raise InputError(
            f"No single item is '{text}'. "
            + (f"Did you mean {suggestions}?" if near else "No title is like it.")
        )

    @cached_property
    def _plain_titles(self) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.object_]]:
        """Every title made plain, whole and without what stands in brackets at its end."""
        titles = [title or "" for title in self.table["title"].to_pylist()]
        whole = np.array([plain(title) for title in titles], dtype=object)
        return whole, np.array([plain(BRACKETS.sub("", title)) for title in titles], dtype=object)

    def _similar(self, text: str, top: int = 50) -> tuple[list[float], list[int]]:
        """Titles by likeness; only those that share most letter pairs are compared in full."""
        wanted = plain(text)
        titles = pa.array(self._plain_titles[0], pa.string())
        pairs = {wanted[start : start + 2] for start in range(len(wanted) - 1)}
        shared = np.zeros(len(self), dtype=np.int32)
        for pair in pairs:
            shared += pc.match_substring(titles, pair).to_numpy(zero_copy_only=False)
        dice = shared / (len(wanted) + pc.utf8_length(titles).to_numpy() + 1)
        candidates = np.argsort(-dice, kind="stable")[:top]
        candidates = candidates[shared[candidates] > 0]
        scored = [
            (difflib.SequenceMatcher(None, wanted, self._plain_titles[0][item]).ratio(), int(item))
            for item in candidates
        ]
        scored.sort(key=lambda pair: -pair[0])
        return [ratio for ratio, _ in scored], [item for _, item in scored]


def index_of_id(ids: pa.ChunkedArray, raw: object) -> int | None:
    """The row whose raw id is `raw`; a text is read as the column's own type."""
    try:
        wanted = pa.scalar(raw).cast(ids.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    index = pc.index(ids, wanted).as_py()
    return None if index < 0 else int(index)


def plain(title: str) -> str:
    """A title as people type it: "Matrix, The (1999)" becomes "matrix"."""
    bare = unicodedata.normalize("NFKD", YEAR.sub("", title)).casefold()
    bare = "".join(letter for letter in bare if not unicodedata.combining(letter))
    return ARTICLE.sub("", " ".join(re.findall(r"\w+", bare)))
