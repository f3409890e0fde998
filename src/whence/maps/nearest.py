"""Nearest neighbours by Euclidean distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from whence.arrays import Floats, Ints
from whence.data.interactions import Interactions
from whence.errors import InputError
from whence.maps.groups import NEIGHBOURS
from whence.memory import cases_at_once, row_slices


@dataclass(frozen=True, eq=False)
class Nearest:
    """The neighbours of every vector, the nearest first; nobody is a neighbour of itself."""

    numbers: Ints
    """`[N, k]`."""
    distances: Floats
    """`[N, k]`."""


@torch.no_grad()
def nearest(vectors: Tensor, k: int) -> Nearest:
    """The k nearest of each vector of `[N, d]`, as many at a time as there is memory for."""
    places = _places(vectors, k)
    at_once = cases_at_once(len(places), on_gpu=places.is_cuda)
    found = [_of_some(places, rows, k) for rows in row_slices(len(places), at_once)]
    numbers, distances = (torch.cat(pieces).cpu().numpy() for pieces in zip(*found, strict=True))
    return Nearest(numbers, distances)


@torch.no_grad()
def nearest_to(vectors: Tensor, number: int, k: int) -> Ints:
    """`[k]`: those of one vector of `[N, d]` alone."""
    numbers, _ = _of_some(_places(vectors, k), slice(number, number + 1), k)
    found: Ints = numbers[0].cpu().numpy()
    return found


def _places(vectors: Tensor, k: int) -> Tensor:
    """Around their mean, so that distances are not lost in the size of the vectors."""
    if vectors.ndim != 2 or not 1 <= k < len(vectors):
        raise InputError(
            f"Vectors of {list(vectors.shape)} have no {k} neighbours each; ask for 1 or more, and "
            "fewer than there are vectors."
        )
    if not bool(vectors.isfinite().all()):
        raise InputError("Neighbours need vectors of finite numbers, which not all of these are.")
    return vectors.double() - vectors.double().mean(dim=0)


def _of_some(places: Tensor, rows: slice, k: int) -> tuple[Tensor, Tensor]:
    """Found by ‖y‖² − 2x·y, and then measured."""
    some = places[rows]
    order = torch.addmm(places.square().sum(dim=1), some, places.T, alpha=-2)
    order.diagonal(rows.start).fill_(torch.inf)
    # Those found that are equally near are in the order of their numbers.
    numbers = order.topk(k, largest=False).indices.sort(dim=1).values
    distances = (some[:, None] - places[numbers]).norm(dim=-1)
    distances, by_distance = distances.sort(dim=1, stable=True)
    return numbers.gather(1, by_distance), distances


# Of the users nearest to one, by what the model learned of users: who chose an item?


CHANCE: Final = 0.05
"""The probability that any users so many would have chosen it as often, from which it is chance."""


@dataclass(frozen=True)
class Nearby:
    """How many of the nearest users chose an item, and how many of all others."""

    chose: int
    nearest: int
    chose_of_others: int
    others: int

    @property
    def by_chance(self) -> float:
        """The probability that of as many users, drawn at random, no fewer would have chosen it."""
        every, chose = self.nearest + self.others, self.chose + self.chose_of_others
        return float(stats.hypergeom.sf(self.chose - 1, every, chose, self.nearest))

    def sentence(self, verb: str) -> str:
        """What to tell the user."""
        nearest = f"of the {self.nearest} users nearest to you"
        others = f"of all others {self._per_cent} %"
        if self.by_chance >= CHANCE:
            return (
                f"fits your taste as the model learned it; {nearest}, {self.chose} {verb} it, "
                f"as could be by chance ({others})"
            )
        return f"{nearest}, {self.chose} {verb} it, {others}"

    @property
    def _per_cent(self) -> str:
        share = 100 * self.chose_of_others / self.others if self.others else 0.0
        return f"{share:.0f}" if share >= 1 or not share else "less than 1"


def find_nearby(vectors: Tensor, data: Interactions, user: int, targets: Ints) -> list[Nearby]:
    """Of one of two users or more, of vectors `[U, d]`, for each of the targets `[k]`."""
    few = min(NEIGHBOURS, data.user_count - 1)
    near = nearest_to(vectors, user, few)
    # Whoever chose it several times is one user.
    pairs = np.unique(data.pairs()[np.isin(data.items, targets)])
    who, item = np.divmod(pairs, data.item_count)
    is_near = np.isin(who, near)
    of_near, of_others = (
        np.bincount(item[some], minlength=data.item_count)[targets].tolist()
        for some in (is_near, ~is_near & (who != user))
    )
    others = data.user_count - 1 - few
    return [
        Nearby(chose, few, of_far, others) for chose, of_far in zip(of_near, of_others, strict=True)
    ]
