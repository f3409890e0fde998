"""Groups of items and users that are in the data but not given to a model: genres and ages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from whence.arrays import Bools
from whence.data.catalog import Catalog
from whence.errors import InputError
from whence.maps.nearest import nearest
from whence.measure import Measure, mean_measure

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
    """The members of each group; an item may belong to several groups, or to none."""

    what: str
    """Such as "genre" or "age"."""
    names: tuple[str, ...]
    member: Bools
    """`[N, groups]`."""

    def __len__(self) -> int:
        """Return the number of items or users."""
        return len(self.member)

    def known(self) -> Bools:
        """Return `[N]`: which items or users belong to any group."""
        return np.asarray(self.member.any(axis=1))

    def texts(self) -> list[str]:
        """Return the names of the groups of each item or user."""
        return [
            ", ".join(name for name, there in zip(self.names, row, strict=True) if there)
            for row in self.member.tolist()
        ]


def genres_of(catalog: Catalog) -> Groups:
    """Return the genres of every item, from its column `genres`, separated by `|`."""
    if "genres" not in catalog.table.column_names:
        raise InputError("These data have no genres. Add a column 'genres' to the items.")
    texts = [text or "" for text in catalog.table["genres"].to_pylist()]
    own = [[name for name in text.split("|") if name not in NO_GENRE] for text in texts]
    names = tuple(sorted({name for some in own for name in some}))
    return Groups("genre", names, _members(own, names))


def ages_of(users: pa.Table) -> Groups:
    """Return the ages of every user, from the column `age`, in the bands of MovieLens 1M."""
    if "age" not in users.column_names:
        raise InputError("These data have no ages. Add a column 'age' to the users.")
    try:
        ages = users["age"].cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        raise InputError("The column 'age' of the users must hold numbers only.") from None
    member = np.digitize(ages, AGES)[:, None] == np.arange(len(AGE_BANDS))
    return Groups("age", AGE_BANDS, member & ~np.isnan(ages)[:, None])


def _members(own: Sequence[Sequence[str]], names: Sequence[str]) -> Bools:
    place = {name: number for number, name in enumerate(names)}
    member = np.zeros((len(own), len(names)), dtype=np.bool_)
    pairs = [(row, place[name]) for row, some in enumerate(own) for name in some]
    member[tuple(np.array(pairs, dtype=np.int64).reshape(-1, 2).T)] = True
    return member


NEIGHBOURS: Final = 10


@dataclass(frozen=True)
class SameGroup:
    """How often neighbours share a group, compared with random groups."""

    share: Measure
    """The share of the k nearest that share a group."""
    chance: float
    """The mean share over all ways to assign the groups at random."""
    excess: Measure
    """The share minus that of random groups; 0 is no better than random."""
    by_group: Mapping[str, tuple[float, float]]
    """By group: the share of its members' neighbours that are in it, and the same at random."""


def same_group(vectors: Tensor, groups: Groups, k: int = NEIGHBOURS, seed: int = 0) -> SameGroup:
    """Return the share of the k nearest neighbours of each vector `[N, d]` that share a group.

    Vectors without a group are left out, also as neighbours. `chance` is exact: all others are
    equally likely neighbours. Intervals come from a bootstrap over the vectors.
    """
    if len(vectors) != len(groups):
        raise InputError(f"There are {len(vectors)} vectors but groups for {len(groups)}.")
    known = groups.known()
    member = groups.member[known]
    near = nearest(vectors[torch.from_numpy(known).to(vectors.device)], k).numbers
    kinds, kind, counts = np.unique(member, axis=0, return_inverse=True, return_counts=True)
    alike = kinds.astype(np.int64) @ kinds.T > 0
    share = alike[kind[:, None], kind[near]].mean(axis=1)
    others = len(member) - 1
    chance = ((alike @ counts - 1) / others)[kind]
    protocol = f"of the {k} nearest by Euclidean distance, the share with {groups.what} in common"
    sizes = member.sum(axis=0)
    return SameGroup(
        share=mean_measure(share, protocol, "neither", seed=seed),
        chance=float(chance.mean()),
        excess=mean_measure(share - chance, f"{protocol}, less chance", "neither", (-1, 1), seed),
        by_group={
            name: (float(member[near[member[:, place]], place].mean()), (size - 1) / others)
            for place, (name, size) in enumerate(zip(groups.names, sizes.tolist(), strict=True))
            if size
        },
    )
