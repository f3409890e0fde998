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
    """How many different values there may be of each; as many as MovieLens-1M has.

    In training there is room for as many as the data have, where nobody says how many.
    """

    n_genders: int = 2
    """Number of genders; by default at least those of the data."""
    n_ages: int = 7
    """Number of age groups; by default at least those of the data."""
    n_occupations: int = 21
    """Number of occupations; by default at least those of the data."""
    n_genres: int = 18
    """Number of genres; by default at least those of the data."""

    def __post_init__(self) -> None:
        if min(self.of_users) < 1 or self.n_genres < 0:
            raise InputError(
                "n_genders, n_ages and n_occupations must be at least 1, and n_genres at least 0."
            )

    @property
    def of_users(self) -> tuple[int, int, int]:
        """In the order of the columns."""
        return self.n_genders, self.n_ages, self.n_occupations


def content_sizes(data: Interactions) -> dict[str, int]:
    """By the name of its setting, how many different values the data have of each."""
    of_users = {f"n_{name}s": len(_known(_told(data, name))) for name in USER_COLUMNS}
    return {**of_users, "n_genres": len(_known_genres(_genres(data)))}


def require_room(data: Interactions, sizes: ContentSizes) -> None:
    """One sentence for all values that there is no number for."""
    lacking = {
        name: found for name, found in content_sizes(data).items() if found > getattr(sizes, name)
    }
    if lacking:
        found = _listed([f"{number} {name[2:]}" for name, number in lacking.items()])
        settings = ",".join(f"{name}={number}" for name, number in lacking.items())
        raise InputError(f"The data have {found}; make room for them: --set {settings}.")


def user_content(data: Interactions) -> Tensor:
    """`[users, 3]`: the number of each user's value in every column, 0 where nothing is known."""
    columns = [_numbered(_told(data, name)) for name in USER_COLUMNS]
    return torch.from_numpy(np.stack(columns, axis=1))


def _told(data: Interactions, name: str) -> list[Any]:
    """What the data say of each user in a column."""
    if name not in data.users.column_names:
        return [None] * data.user_count
    told: list[Any] = data.users[name].to_pylist()
    return told


def _known(values: list[Any]) -> list[Any]:
    """Each value once, in order."""
    return sorted({value for value in values if value is not None})


def _numbered(values: list[Any]) -> npt.NDArray[np.int64]:
    """Values by their numbers, in order."""
    number: dict[Any, int] = {value: place for place, value in enumerate(_known(values))}
    return np.array([number.get(value, 0) for value in values], dtype=np.int64)


def item_content(data: Interactions, most: int) -> Tensor:
    """`[items, 1 + most]`: the year, in standard deviations from its mean, and yes or no."""
    found = torch.zeros(data.item_count, 1 + most)
    found[:, 0] = torch.from_numpy(_years(data.catalog.table))
    own = _genres(data)
    for place, genre in enumerate(_known_genres(own), start=1):
        found[:, place] = torch.tensor([genre in one for one in own])
    return found


def _genres(data: Interactions) -> list[set[str]]:
    """Those of each item."""
    table = data.catalog.table
    if "genres" not in table.column_names:
        return []
    return [set((text or "").split("|")) - {*NO_GENRES} for text in table["genres"].to_pylist()]


def _known_genres(own: list[set[str]]) -> list[str]:
    """Each genre once, in order."""
    return sorted(set[str]().union(*own))


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
