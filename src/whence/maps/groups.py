"""Groups of items and users that the data know and a model is not told: genres, ages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from whence.data.catalog import Catalog
from whence.errors import InputError
from whence.trust.cases import Bools

NO_GENRE: Final = ("", "(no genres listed)")
AGES: Final = (18, 25, 35, 45, 50, 56)
"""The ages at which the bands of MovieLens 1M begin, after the first."""
AGE_BANDS: Final = (
    f"under {AGES[0]}",
    *(f"{start}–{end - 1}" for start, end in pairwise(AGES)),
    f"{AGES[-1]} and over",
)


@dataclass(frozen=True, eq=False)
class Groups:
    """Who belongs to what; an item may be of several groups, and of none."""

    what: str
    """genre, age, …"""
    names: tuple[str, ...]
    member: Bools
    """`[N, groups]`."""

    def __len__(self) -> int:
        """How many items or users."""
        return len(self.member)

    def known(self) -> Bools:
        """`[N]`: who belongs to anything."""
        return np.asarray(self.member.any(axis=1))

    def texts(self) -> list[str]:
        """The names of everybody's groups."""
        return [
            ", ".join(name for name, there in zip(self.names, row, strict=True) if there)
            for row in self.member.tolist()
        ]


def genres_of(catalog: Catalog) -> Groups:
    """Of every item, from its column `genres`, where bars stand between several."""
    if "genres" not in catalog.table.column_names:
        raise InputError("These data have no genres; a column 'genres' of the items says them.")
    texts = [text or "" for text in catalog.table["genres"].to_pylist()]
    own = [[name for name in text.split("|") if name not in NO_GENRE] for text in texts]
    names = tuple(sorted({name for some in own for name in some}))
    return Groups("genre", names, _members(own, names))


def ages_of(users: pa.Table) -> Groups:
    """Of every user, from their column `age`, in the bands of MovieLens 1M."""
    if "age" not in users.column_names:
        raise InputError("These data have no ages; a column 'age' of the users says them.")
    try:
        ages = users["age"].cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        raise InputError(
            "The column 'age' of the users holds something else than numbers."
        ) from None
    member = np.digitize(ages, AGES)[:, None] == np.arange(len(AGE_BANDS))
    return Groups("age", AGE_BANDS, member & ~np.isnan(ages)[:, None])


def _members(own: Sequence[Sequence[str]], names: Sequence[str]) -> Bools:
    place = {name: number for number, name in enumerate(names)}
    member = np.zeros((len(own), len(names)), dtype=np.bool_)
    pairs = [(row, place[name]) for row, some in enumerate(own) for name in some]
    member[tuple(np.array(pairs, dtype=np.int64).reshape(-1, 2).T)] = True
    return member
