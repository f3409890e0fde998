"""What a model must beat: the most popular items, and what usually follows the last one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from whence.contract import PAD, All, Explainable
from whence.data.splits import Split


class _Counts(Explainable):
    """Scores that are counted in the training events, not learned."""

    removal = "dropped"

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
        attention: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """What was counted for the targets, given the newest item that is present."""
        parts = self.parts(batch) if present is None else self.parts(batch) & present
        slot = torch.arange(1, batch.shape[1] + 1)
        newest = batch.gather(1, (parts * slot).argmax(dim=1)[:, None])[:, 0]
        return self._count(torch.where(parts.any(dim=1), newest, PAD), targets)

    def _count(self, newest: Tensor, targets: Tensor | All) -> Tensor:
        """`[B, t]` from the newest item `[B]`, or `PAD` where the history is empty."""
        raise NotImplementedError


class Popularity(_Counts):
    """How often an item was chosen, by anyone."""

    def __init__(self, split: Split) -> None:
        items = split.interactions.items[split.trained()]
        counts = np.bincount(items, minlength=split.interactions.item_count)
        self.counts = torch.from_numpy(counts.astype(np.float32))

    def _count(self, newest: Tensor, targets: Tensor | All) -> Tensor:
        if isinstance(targets, All):
            return self.counts.expand(len(newest), -1)
        return self.counts[targets]


class LastItem(_Counts):
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

    def _count(self, newest: Tensor, targets: Tensor | All) -> Tensor:
        item = newest.clamp(min=0).numpy()
        known = (newest != PAD)[:, None]
        if isinstance(targets, All):
            return torch.from_numpy(self.transitions[item].toarray()) * known + self.fame
        column = targets.numpy().copy()
        row = item.repeat(column.shape[1]).reshape(column.shape)
        return (
            torch.from_numpy(self.transitions[row, column].toarray()) * known + self.fame[targets]
        )


BASELINES = {"popularity": Popularity, "last item": LastItem}
