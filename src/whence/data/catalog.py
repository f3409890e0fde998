"""The items: raw ids in and out, titles a person can type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from whence.data.titles import Titles
from whence.errors import InputError


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
