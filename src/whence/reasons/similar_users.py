"""How many of the users most similar to you chose an item.

This is the neighbour-based explanation of collaborative filtering (Jain 2019, Section 2.2.1), for
models that represent users by vectors. It counts as a reason only if it is more than random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse, stats
from torch import Tensor

from whence.arrays import Ints
from whence.data.interactions import Interactions
from whence.maps.groups import NEIGHBOURS
from whence.maps.nearest import nearest_to, nearest_to_some

SIGNIFICANCE: Final = 0.05
"""From this p-value on, a count is reported as possibly random."""


@dataclass(frozen=True)
class SimilarUsers:
    """How many of the most similar users chose an item, and how many of all other users."""

    chose: int
    nearest: int
    chose_of_others: int
    others: int

    @property
    def p_value(self) -> float:
        """The probability that random users, equally many, chose the item at least as often."""
        every, chose = self.nearest + self.others, self.chose + self.chose_of_others
        return float(stats.hypergeom.sf(self.chose - 1, every, chose, self.nearest))

    def sentence(self, verb: str) -> str:
        """Return what to tell the user."""
        near = f"{self.chose} of the {self.nearest} users most similar to you {verb} it"
        others = f"{self._percentage} % of all others"
        if self.p_value < SIGNIFICANCE:
            return f"{near}, compared with {others}"
        return (
            f"fits your taste as the model learned it; {near}, "
            f"which could be chance (compared with {others})"
        )

    @property
    def _percentage(self) -> str:
        share = 100 * self.chose_of_others / self.others if self.others else 0.0
        return f"{share:.0f}" if share >= 1 or not share else "less than 1"


def find_similar_users(
    vectors: Tensor, data: Interactions, user: int, targets: Ints
) -> list[SimilarUsers]:
    """Return, for each of the targets `[k]`, which users near this one in `[U, d]` chose it."""
    few = min(NEIGHBOURS, data.user_count - 1)
    near = nearest_to(vectors, user, few)
    # A user who chose an item several times counts once.
    pairs = np.unique(data.pairs()[np.isin(data.items, targets)])
    who, item = np.divmod(pairs, data.item_count)
    is_near = np.isin(who, near)
    of_near, of_others = (
        np.bincount(item[some], minlength=data.item_count)[targets].tolist()
        for some in (is_near, ~is_near & (who != user))
    )
    others = data.user_count - 1 - few
    return [
        SimilarUsers(chose, few, of_far, others)
        for chose, of_far in zip(of_near, of_others, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Choices:
    """Who chose what, to count the choices of many users' neighbours."""

    chose: sparse.csr_array
    """`[users, items]`: 1 if the user chose the item."""
    events: Ints
    """`[items]`: how many users chose each item."""

    @staticmethod
    def of(data: Interactions) -> Choices:
        """Count every user and item once."""
        who, item = np.divmod(np.unique(data.pairs()), data.item_count)
        shape = (data.user_count, data.item_count)
        chose = sparse.csr_array((np.ones(len(who), dtype=np.int32), (who, item)), shape=shape)
        return Choices(chose, np.bincount(item, minlength=data.item_count))

    def similar_users(
        self, vectors: Tensor, users: slice, targets: Ints
    ) -> list[list[SimilarUsers]]:
        """Return what `find_similar_users` does, for adjacent users and unseen targets `[n, k]`."""
        user_count = self.chose.shape[0]
        few = min(NEIGHBOURS, user_count - 1)
        near = nearest_to_some(vectors, users, few)
        rows = np.arange(len(near)).repeat(few)
        picked = sparse.csr_array(
            (np.ones(near.size, dtype=np.int32), (rows, near.reshape(-1))),
            shape=(len(near), user_count),
        )
        of_near = np.take_along_axis((picked @ self.chose).toarray(), targets, axis=1)
        of_others = self.events[targets] - of_near
        others = user_count - 1 - few
        return [
            [SimilarUsers(chosen, few, far, others) for chosen, far in zip(*both, strict=True)]
            for both in zip(of_near.tolist(), of_others.tolist(), strict=True)
        ]
