"""Of the users nearest to one, by what the model learned of users: who chose an item?

The neighbour-based explanation of collaborative filtering (Jain 2019, Section 2.2.1), for models
that know users by their numbers. It is only said of more users than chance would have chosen it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import stats
from torch import Tensor

from whence.arrays import Ints
from whence.data.interactions import Interactions
from whence.maps.groups import NEIGHBOURS
from whence.maps.nearest import nearest_to

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
