"""Features of users and items in the data: gender, age and occupation, genres and year."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from whence.arrays import Floats, Ints
from whence.data.interactions import Interactions
from whence.errors import InputError

USER_COLUMNS: Final = {"gender": 2, "age": 6, "occupation": 8}
"""The embedding size of each column of the users."""
ITEM_DIM: Final = 16
"""The size of the embedding of an item's genres and year."""
CONTENT_DIM: Final = sum(USER_COLUMNS.values()) + ITEM_DIM
YEAR: Final = re.compile(r"\((\d{4})\)\s*$")
"""As in "Toy Story (1995)"."""
NO_GENRES: Final = ("", "(no genres listed)")


@dataclass(frozen=True)
class ContentSizes:
    """The number of values of each feature; the defaults are those of MovieLens-1M.

    Training uses the numbers of the data if they are larger and you set none.
    """

    n_genders: int = 2
    """The number of genders; training raises it to that of the data."""
    n_ages: int = 7
    """The number of ages; training raises it to that of the data."""
    n_occupations: int = 21
    """The number of occupations; training raises it to that of the data."""
    n_genres: int = 18
    """The number of genres; training raises it to that of the data."""

    def __post_init__(self) -> None:
        if min(self.user_sizes) < 1 or self.n_genres < 0:
            raise InputError(
                "n_genders, n_ages and n_occupations must be at least 1, and n_genres at least 0."
            )

    @property
    def user_sizes(self) -> tuple[int, int, int]:
        """The number of values of each column of the users."""
        return self.n_genders, self.n_ages, self.n_occupations


def content_sizes(data: Interactions) -> dict[str, int]:
    """Return the number of values of each feature in the data, by the name of its setting."""
    of_users = {f"n_{name}s": len(_distinct(_column(data, name))) for name in USER_COLUMNS}
    return {**of_users, "n_genres": len(_all_genres(_genres(data)))}


def require_sizes(data: Interactions, sizes: ContentSizes) -> None:
    """Raise `InputError` if the data have more values of a feature than a model has room for."""
    lacking = {
        name: found for name, found in content_sizes(data).items() if found > getattr(sizes, name)
    }
    if lacking:
        found = _joined([f"{number} {name.removeprefix('n_')}" for name, number in lacking.items()])
        settings = ",".join(f"{name}={number}" for name, number in lacking.items())
        raise InputError(
            f"The data have {found}, more than this model. Train it with --set {settings}."
        )


def user_features(data: Interactions) -> Tensor:
    """Return `[users, 3]`: the number of each user's value in every column, 0 if unknown."""
    columns = [_numbered(_column(data, name)) for name in USER_COLUMNS]
    return torch.from_numpy(np.stack(columns, axis=1))


def _column(data: Interactions, name: str) -> list[Any]:
    """Return a column of the users, with `None` for unknown values."""
    if name not in data.users.column_names:
        return [None] * data.user_count
    values: list[Any] = data.users[name].to_pylist()
    return values


def _distinct(values: list[Any]) -> list[Any]:
    return sorted({value for value in values if value is not None})


def _numbered(values: list[Any]) -> Ints:
    """Return the place of each value among the sorted distinct values."""
    number: dict[Any, int] = {value: place for place, value in enumerate(_distinct(values))}
    return np.array([number.get(value, 0) for value in values], dtype=np.int64)


def item_features(data: Interactions, n_genres: int) -> Tensor:
    """Return `[items, 1 + genres]`: the standardized year, and 0 or 1 for each genre."""
    found = torch.zeros(data.item_count, 1 + n_genres)
    found[:, 0] = torch.from_numpy(_years(data.catalog.table))
    own = _genres(data)
    for place, genre in enumerate(_all_genres(own), start=1):
        found[:, place] = torch.tensor([genre in one for one in own])
    return found


def _genres(data: Interactions) -> list[set[str]]:
    """Return the genres of each item."""
    table = data.catalog.table
    if "genres" not in table.column_names:
        return []
    return [set((text or "").split("|")) - {*NO_GENRES} for text in table["genres"].to_pylist()]


def _all_genres(own: list[set[str]]) -> list[str]:
    return sorted(set[str]().union(*own))


def _years(table: pa.Table) -> Floats:
    """Return standardized years from a column 'year' or from the titles, 0 if unknown."""
    if "year" in table.column_names:
        known: list[float | None] = table["year"].to_pylist()
    elif "title" in table.column_names:
        matches = (YEAR.search(title or "") for title in table["title"].to_pylist())
        known = [None if one is None else float(one[1]) for one in matches]
    else:
        known = [None] * table.num_rows
    years = np.array([np.nan if one is None else one for one in known], dtype=np.float64)
    if not np.isfinite(years).any():
        return np.zeros(len(years))
    deviation = float(np.nanstd(years)) or 1.0
    return np.nan_to_num((years - np.nanmean(years)) / deviation)


def describe_content(of_users: Tensor, of_items: Tensor) -> str:
    """Return the features that differ between users or items, in words."""

    def differs(column: Tensor) -> bool:
        return bool((column != column[:1]).any())

    item = [
        word
        for word, columns in (("genres", of_items[:, 1:]), ("year", of_items[:, :1]))
        if columns.numel() and differs(columns)
    ]
    user = [name for name, column in zip(USER_COLUMNS, of_users.T, strict=True) if differs(column)]
    phrases = [
        f"{whose} {_joined(words)}" for whose, words in (("its", item), ("your", user)) if words
    ]
    return " and ".join(phrases) or "what all have in common"


def _joined(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
