"""Baselines that a model must beat: popularity, transitions and item-to-item similarity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from whence.contract import DROPPED, PAD, All
from whence.data.histories import newest_events
from whence.data.splits import Split
from whence.memory import SCORES_AT_ONCE
from whence.models.base import CaseReader

AnyInts = npt.NDArray[np.integer[Any]]
RECENT = 100
"""The number of each user's newest training events that similarities are computed from."""
NEIGHBOURS = 100
"""The number of similar items stored for each item."""


class _Rule(CaseReader):
    """Scores that are counted in the training events, not trained."""

    removal = DROPPED

    def parts(self, batch: Tensor) -> Tensor:
        """Return the slots with an item."""
        return batch != PAD

    def score(
        self,
        batch: Tensor,
        targets: Tensor | All,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return the counts of the targets for the items that are present."""
        parts = self.parts(batch) if present is None else self.parts(batch) & present
        return self._count(torch.where(parts, batch, PAD), targets)

    def _count(self, batch: Tensor, targets: Tensor | All) -> Tensor:
        """Return `[B, t]` for histories that may have gaps."""
        raise NotImplementedError


class Popularity(_Rule):
    """How often an item was chosen by all users."""

    def __init__(self, split: Split) -> None:
        self.counts = torch.from_numpy(split.item_counts().astype(np.float32))

    def _count(self, batch: Tensor, targets: Tensor | All) -> Tensor:
        if isinstance(targets, All):
            return self.counts.expand(len(batch), -1)
        return self.counts[targets]


class LastItem(_Rule):
    """How often an item came right after the newest one; popularity breaks ties."""

    def __init__(self, split: Split) -> None:
        interactions = split.interactions
        counts = Popularity(split).counts
        self.popularity = counts / (1 + counts.max())
        follows = split.trained()
        follows[interactions.offsets[:-1]] = False  # a user's first event follows nothing
        later = np.flatnonzero(follows)
        pair = (interactions.items[later - 1], interactions.items[later])
        shape = (interactions.item_count,) * 2
        self.transitions = sparse.csr_array((np.ones(len(later), np.float32), pair), shape=shape)

    def _count(self, batch: Tensor, targets: Tensor | All) -> Tensor:
        slot = torch.arange(1, batch.shape[1] + 1)
        newest = batch.gather(1, ((batch != PAD) * slot).argmax(dim=1)[:, None])[:, 0]
        item = newest.clamp(min=0).numpy()
        known = (newest != PAD)[:, None]
        if isinstance(targets, All):
            return torch.from_numpy(self.transitions[item].toarray()) * known + self.popularity
        column = targets.numpy().copy()
        row = item.repeat(column.shape[1]).reshape(column.shape)
        return (
            torch.from_numpy(self.transitions[row, column].toarray()) * known
            + self.popularity[targets]
        )


class ItemToItem(_Rule):
    """The sum of the item's cosines with the items of the history (Sarwar et al. 2001).

    The cosine of two items is the number of users they share over the root of the product of their
    numbers of users. Popularity ranks the items without similarity.
    """

    def __init__(self, split: Split) -> None:
        interactions = split.interactions
        self.item_count = interactions.item_count
        counts = Popularity(split).counts
        self.popularity = 1e-6 * counts / (1 + counts.max())
        event, user = newest_events(interactions.offsets[:-1], split.train_ends, RECENT)
        shape = (interactions.user_count, self.item_count)
        chosen = _once(user, interactions.items[event], shape)
        lengths = np.sqrt(np.maximum(chosen.sum(axis=0), 1), dtype=np.float32)
        self.similar = _nearest(sparse.csr_array(chosen / lengths))

    def _count(self, batch: Tensor, targets: Tensor | All) -> Tensor:
        """Return the similarity of the targets to the distinct items of the history."""
        row, slot = (batch != PAD).nonzero(as_tuple=True)
        history = _once(row.numpy(), batch[row, slot].numpy(), (len(batch), self.item_count))
        near = history @ self.similar
        if isinstance(targets, All):
            return torch.from_numpy(near.toarray()) + self.popularity
        column = targets.numpy().copy()
        each = np.arange(len(column)).repeat(column.shape[1]).reshape(column.shape)
        return torch.from_numpy(near[each, column].toarray()) + self.popularity[targets]


class MeanRating(_Rule):
    """The mean of all training ratings, for every item."""

    predicts_probabilities = False

    def __init__(self, split: Split) -> None:
        ratings = split.interactions.ratings
        assert ratings is not None
        self.mean = float(ratings[split.trained()].mean(dtype=np.float64))
        self.item_count = split.interactions.item_count

    def _count(self, batch: Tensor, targets: Tensor | All) -> Tensor:
        count = self.item_count if isinstance(targets, All) else targets.shape[1]
        return torch.full((len(batch), count), self.mean)


def _once(row: AnyInts, column: AnyInts, shape: tuple[int, int]) -> sparse.csr_array:
    """Return a matrix with 1 at every pair, however often it occurs."""
    found = sparse.csr_array((np.ones(len(row), np.float32), (row, column)), shape=shape)
    found.data[:] = 1
    return found


def _nearest(columns: sparse.csr_array) -> sparse.csr_array:
    """Return the largest entries of each row of `columnsᵀ · columns`, without the diagonal.

    It computes as many rows at once as are sure to fit into memory.
    """
    turned = sparse.csr_array(columns.T)
    most = np.cumsum((turned != 0) @ np.diff(columns.indptr))
    cuts = np.searchsorted(most, np.arange(SCORES_AT_ONCE, most[-1], SCORES_AT_ONCE))
    found = []
    for rows in np.split(np.arange(turned.shape[0]), np.unique(cuts)):
        product = sparse.coo_array(turned[rows] @ columns)
        other = rows[product.row] != product.col
        order = np.lexsort((-product.data[other], product.row[other]))
        row, column, value = (
            part[other][order] for part in (product.row, product.col, product.data)
        )
        first = np.searchsorted(row, row)
        kept = np.arange(len(row)) - first < NEIGHBOURS
        shape = (len(rows), columns.shape[1])
        found.append(sparse.csr_array((value[kept], (row[kept], column[kept])), shape=shape))
    return sparse.csr_array(sparse.vstack(found))


BASELINES = {"popularity": Popularity, "last item": LastItem, "item to item": ItemToItem}
MEAN_RATING = "mean rating"
"""The baseline of models that predict ratings."""
