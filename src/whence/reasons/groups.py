"""The groups of items that a taste can be for: their attributes, or the model's own neighbourhoods.

A target's group is, of those it belongs to, the one that a history has most of beyond the usual.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from scipy.cluster.vq import kmeans2
from torch import Tensor

from whence.arrays import Bools, Ints
from whence.contract import PAD
from whence.data.catalog import Catalog
from whence.maps.groups import genres_of

ITEMS_OF_A_NEIGHBOURHOOD: Final = 40
MOST_NEIGHBOURHOODS: Final = 200
NO_GROUP: Final = -1
ROUNDS: Final = 20
"""Of k-means."""
SHORTEST_VECTOR: Final = 1e-12


@dataclass(frozen=True, eq=False)
class ItemGroups:
    """Which items are in which groups."""

    member: Tensor
    """Bool `[groups, items]`."""
    share: Tensor
    """`[groups]`: the share of all events that are of the group."""
    names: tuple[str, ...] = ()
    """Neighbourhoods have none."""

    @staticmethod
    def of(member: Bools, events: Ints | None, names: tuple[str, ...] = ()) -> ItemGroups:
        """Return the groups `[groups, items]`; `events` are the numbers of events of the items."""
        weights = np.ones(member.shape[1]) if events is None else events + 1e-9
        share = member @ weights / weights.sum()
        return ItemGroups(torch.from_numpy(member), torch.from_numpy(share).float(), names)

    def to(self, device: torch.device) -> ItemGroups:
        """Return the same groups on a device."""
        return replace(self, member=self.member.to(device), share=self.share.to(device))

    def of_targets(self, histories: Tensor, targets: Tensor) -> Tensor:
        """Return `[U, k]`: each target's group for the history `[U, w]`, or `NO_GROUP`."""
        real = (histories != PAD).float()
        padded = histories.clamp(min=0)
        # One group at a time, as [groups, U, w] may be large.
        counts = torch.stack([(one[padded] * real).sum(dim=1) for one in self.member], dim=1)
        expected = real.sum(dim=1, keepdim=True) * self.share
        beyond = (counts - expected) / expected.clamp(min=1e-6).sqrt()  # [U, groups]
        own = self.member.T[targets]  # [U, k, groups]
        ranked = beyond[:, None, :].where(own, -torch.inf)
        best = ranked.amax(dim=2)
        return ranked.argmax(dim=2).where(best > -torch.inf, NO_GROUP)

    def shares(self, group: Tensor) -> Tensor:
        """Return `[…]`: the share of all events that are of each group; 0 of `NO_GROUP`."""
        return self.share[group.clamp(min=0)].where(group != NO_GROUP, 0.0)

    def contains(self, group: Tensor, items: Tensor) -> Tensor:
        """Return bool `[…]`: whether each item is in its group; `PAD` and `NO_GROUP` are not."""
        found: Tensor = self.member[group.clamp(min=0), items.clamp(min=0)]
        return found & (group != NO_GROUP) & (items != PAD)


def groups_of_catalog(catalog: Catalog) -> ItemGroups | None:
    """Return the genres of the items, if they have any."""
    if "genres" not in catalog.table.column_names:
        return None
    genres = genres_of(catalog)
    return ItemGroups.of(genres.member.T.copy(), catalog.popularity, genres.names)


def neighbourhoods(vectors: Tensor, events: Ints | None) -> ItemGroups:
    """Return groups of items whose vectors `[items, d]` point the same way."""
    directions = vectors.detach().cpu().double()
    directions = directions / directions.norm(dim=1, keepdim=True).clamp(min=SHORTEST_VECTOR)
    count = min(MOST_NEIGHBOURHOODS, -(-len(vectors) // ITEMS_OF_A_NEIGHBOURHOOD))
    first = directions[np.random.default_rng(0).permutation(len(vectors))[:count]]
    _, place = kmeans2(directions.numpy(), first.numpy(), iter=ROUNDS, minit="matrix")
    return ItemGroups.of(np.arange(count)[:, None] == place, events)
