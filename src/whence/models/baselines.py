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
        """The counts of all items, or of the targets among them."""
        parts = self.parts(batch) if present is None else self.parts(batch) & present
        scores = self._count(batch, parts)
        return scores if isinstance(targets, All) else scores.gather(1, targets)

    def _count(self, batch: Tensor, parts: Tensor) -> Tensor:
        raise NotImplementedError


class Popularity(_Counts):
    """How often an item was chosen, by anyone."""

    def __init__(self, split: Split) -> None:
        items = split.interactions.items[split.trained()]
        counts = np.bincount(items, minlength=split.interactions.item_count)
        self.counts = torch.from_numpy(counts.astype(np.float32))

    def _count(self, batch: Tensor, parts: Tensor) -> Tensor:
        return self.counts.expand(len(batch), -1)


class LastItem(_Counts):
    """How often an item came right after the newest one; popularity decides between equals."""

    def __init__(self, split: Split) -> None:
        interactions = split.interactions
        self.popularity = Popularity(split)
        follows = split.trained()
        follows[interactions.offsets[:-1][np.diff(interactions.offsets) > 0]] = False
        later = np.flatnonzero(follows)
        pair = (interactions.items[later - 1], interactions.items[later])
        shape = (interactions.item_count,) * 2
        self.transitions = sparse.csr_array((np.ones(len(later), np.float32), pair), shape=shape)

    def _count(self, batch: Tensor, parts: Tensor) -> Tensor:
        slot = torch.arange(1, batch.shape[1] + 1, device=batch.device)
        newest = (parts * slot).argmax(dim=1)
        item = batch.gather(1, newest[:, None])[:, 0]
        rows = torch.from_numpy(self.transitions[item.clamp(min=0).numpy()].toarray())
        fame = self.popularity.counts
        return rows * parts.any(dim=1)[:, None] + fame / (1 + fame.max())


BASELINES = {"popularity": Popularity, "last item": LastItem}
