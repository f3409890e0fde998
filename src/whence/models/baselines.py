"""What a model must beat: popularity, what follows the last item, what the same users chose."""

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
"""Training events a user counts with, the newest, when items are compared."""
NEIGHBOURS = 100
"""Items that each item is found similar to."""


class _Rule(CaseReader):
    """Scores that are counted in the training events, not learned."""

    removal = DROPPED

    def parts(self, batch: Tensor) -> Tensor:
        """Every slot with an item."""
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
        """What was counted for the targets, given the items that are present."""
        parts = self.parts(batch) if present is None else self.parts(batch) & present
        return self._count(torch.where(parts, batch, PAD), targets)

    def _count(self, batch: Tensor, targets: Tensor | All) -> Tensor:
        """`[B, t]` from histories that may have gaps."""
        raise NotImplementedError


class Popularity(_Rule):
    """How often an item was chosen, by anyone."""

    def __init__(self, split: Split) -> None:
        self.counts = torch.from_numpy(split.item_counts().astype(np.float32))

    def _count(self, batch: Tensor, targets: Tensor | All) -> Tensor:
        if isinstance(targets, All):
            return self.counts.expand(len(batch), -1)
        return self.counts[targets]


class LastItem(_Rule):
    """How often an item came right after the newest one; popularity decides between equals."""

    def __init__(self, split: Split) -> None:
        interactions = split.interactions
        counts = Popularity(split).counts
        self.fame = counts / (1 + counts.max())
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
            return torch.from_numpy(self.transitions[item].toarray()) * known + self.fame
        column = targets.numpy().copy()
        row = item.repeat(column.shape[1]).reshape(column.shape)
        return (
            torch.from_numpy(self.transitions[row, column].toarray()) * known + self.fame[targets]
        )


class ItemToItem(_Rule):
    """Items chosen by the same users (Sarwar et al. 2001): the sum of the cosines with the history.

    The cosine of two items is the number of users they have in common over the root of the product
    of their numbers of users. Popularity decides where nothing is similar.
    """

    def __init__(self, split: Split) -> None:
        interactions = split.interactions
        self.item_count = interactions.item_count
        counts = Popularity(split).counts
        self.fame = 1e-6 * counts / (1 + counts.max())
        event, user = newest_events(interactions.offsets[:-1], split.train_ends, RECENT)
        shape = (interactions.user_count, self.item_count)
        chosen = _once(user, interactions.items[event], shape)
        lengths = np.sqrt(np.maximum(chosen.sum(axis=0), 1), dtype=np.float32)
        self.similar = _nearest(sparse.csr_array(chosen / lengths))

    def _count(self, batch: Tensor, targets: Tensor | All) -> Tensor:
        """How similar the targets are to the history's items together, each counted once."""
        row, slot = (batch != PAD).nonzero(as_tuple=True)
        history = _once(row.numpy(), batch[row, slot].numpy(), (len(batch), self.item_count))
        near = history @ self.similar
        if isinstance(targets, All):
            return torch.from_numpy(near.toarray()) + self.fame
        column = targets.numpy().copy()
        each = np.arange(len(column)).repeat(column.shape[1]).reshape(column.shape)
        return torch.from_numpy(near[each, column].toarray()) + self.fame[targets]


class MeanRating(_Rule):
    """The mean of all ratings that are for training, whatever the item."""

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
    """1 at every pair, however often it occurs."""
    found = sparse.csr_array((np.ones(len(row), np.float32), (row, column)), shape=shape)
    found.data[:] = 1
    return found


def _nearest(columns: sparse.csr_array) -> sparse.csr_array:
    """The largest entries of each row of `columnsᵀ · columns`, apart from the diagonal.

    As many rows at a time as are sure to fit: no row has more entries than its column's rows.
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
"""The rule beside models of ratings, who are asked for more than what comes next."""
