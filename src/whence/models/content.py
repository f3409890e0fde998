"""What data say of users and of items beside who they are: age and occupation, genres and year."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor

from whence.data.interactions import Interactions
from whence.errors import InputError

USER_COLUMNS: Final = {"gender": 2, "age": 6, "occupation": 8}
"""By column of the users, how many numbers stand for one of its values."""
ITEM_WIDTH: Final = 16
"""Numbers that stand for an item's genres and year."""
CONTENT_WIDTH: Final = sum(USER_COLUMNS.values()) + ITEM_WIDTH
YEAR: Final = re.compile(r"\((\d{4})\)\s*$")
"""As in "Toy Story (1995)"."""
NO_GENRES: Final = ("", "(no genres listed)")


@dataclass(frozen=True)
class ContentSizes:
    """How many different values there may be of each; as many as MovieLens-1M has."""

    genders: int = 2
    ages: int = 7
    occupations: int = 21
    genres: int = 18

    def __post_init__(self) -> None:
        if min(self.of_users) < 1 or self.genres < 0:
            raise InputError("genders, ages and occupations are from 1 on, and genres from 0 on.")

    @property
    def of_users(self) -> tuple[int, int, int]:
        """In the order of the columns."""
        return self.genders, self.ages, self.occupations


def user_content(data: Interactions, sizes: ContentSizes) -> Tensor:
    """`[users, 3]`: the number of each user's value in every column, 0 where nothing is known."""
    columns = []
    for name, most in zip(USER_COLUMNS, sizes.of_users, strict=True):
        numbers = np.zeros(data.user_count, dtype=np.int64)
        if name in data.users.column_names:
            numbers = _numbered(data.users[name], name, most)
        columns.append(numbers)
    return torch.from_numpy(np.stack(columns, axis=1))


def _numbered(column: pa.ChunkedArray, name: str, most: int) -> npt.NDArray[np.int64]:
    """Values by their numbers, in order."""
    values = column.to_pylist()
    known = sorted({value for value in values if value is not None})
    if len(known) > most:
        raise InputError(
            f"The users have {len(known)} different values of {name}; say {name}s={len(known)}."
        )
    number: dict[Any, int] = {value: place for place, value in enumerate(known)}
    return np.array([number.get(value, 0) for value in values], dtype=np.int64)


def item_content(data: Interactions, sizes: ContentSizes) -> Tensor:
    """`[items, 1 + genres]`: the year, in standard deviations from its mean, and yes or no."""
    table = data.catalog.table
    found = torch.zeros(data.item_count, 1 + sizes.genres)
    found[:, 0] = torch.from_numpy(_years(table))
    if "genres" in table.column_names:
        own = [set((text or "").split("|")) - {*NO_GENRES} for text in table["genres"].to_pylist()]
        genres = sorted(set().union(*own))
        if len(genres) > sizes.genres:
            raise InputError(f"The items have {len(genres)} genres; say genres={len(genres)}.")
        for place, genre in enumerate(genres, start=1):
            found[:, place] = torch.tensor([genre in one for one in own])
    return found


def _years(table: pa.Table) -> npt.NDArray[np.float64]:
    """Of a column 'year', else of the titles; 0 where nothing is known."""
    if "year" in table.column_names:
        known: list[float | None] = table["year"].to_pylist()
    elif "title" in table.column_names:
        said = (YEAR.search(title or "") for title in table["title"].to_pylist())
        known = [None if one is None else float(one[1]) for one in said]
    else:
        known = [None] * table.num_rows
    years = np.array([np.nan if one is None else one for one in known], dtype=np.float64)
    if not np.isfinite(years).any():
        return np.zeros(len(years))
    spread = float(np.nanstd(years)) or 1.0
    return np.nan_to_num((years - np.nanmean(years)) / spread)


def content_in_words(of_users: Tensor, of_items: Tensor) -> str:
    """What of it differs between users or items, in words."""

    def differs(column: Tensor) -> bool:
        return bool((column != column[:1]).any())

    item = [
        word
        for word, columns in (("genres", of_items[:, 1:]), ("year", of_items[:, :1]))
        if columns.numel() and differs(columns)
    ]
    user = [name for name, column in zip(USER_COLUMNS, of_users.T, strict=True) if differs(column)]
    told = [
        f"{whose} {_listed(words)}" for whose, words in (("its", item), ("your", user)) if words
    ]
    return " beside ".join(told) or "what all have in common"


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
