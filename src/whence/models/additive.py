"""Models whose score of a target is a sum of one term for each item of the history."""

from __future__ import annotations

from dataclasses import replace

import torch
from scipy import sparse
from torch import Tensor

from whence.contract import MEMORY, PAD, All
from whence.memory import row_slices
from whence.models.item_pairs import ItemPairs
from whence.models.simple import PairsConfig, SimpleModel

BYTES_PER_SLOT = 24
"""What one slot of a coalition takes: itself in double precision, and room to sort it."""


class AdditiveModel(SimpleModel):
    """constant_j + Σ_i w_i m_ij over the distinct items i of a history, for the target j.

    The matrix m is computed from the training events, and w_i depends only on the slot of i. An
    item that is there several times counts once, in the newest of its slots that is present.
    """

    config: PairsConfig

    def __init__(self, config: PairsConfig, item_count: int, generator: torch.Generator) -> None:
        super().__init__()
        self.config = config
        self.terms = ItemPairs(item_count, config.pairs)

    def constants(self) -> Tensor:
        """Return `[items]`: the score of each target without any item."""
        return self.terms.values.new_zeros(self.terms.item_count)

    def slot_weights(self, slots: int) -> Tensor:
        """Return `[n]`: the weights w of the slots, of which the last is the newest."""
        return self.terms.values.new_ones(slots)

    def scale(self, factor: float) -> None:
        """Multiply every term, so that the scores become logits."""
        self.terms.values = self.terms.values * factor

    def store(self, matrix: sparse.csr_array) -> None:
        """Use this matrix m, and say in the configuration how many pairs it has."""
        self.terms.fill(matrix)
        self.config = replace(self.config, pairs=len(self.terms))

    def score_rest(self, batch: Tensor, targets: Tensor | All) -> Tensor:
        """Return the sums over the items that are there."""
        weights = newest_copies(batch) * self.slot_weights(batch.shape[1])
        if isinstance(targets, All):
            return self.terms.sum_rows(batch, weights) + self.constants()
        each = self.terms.at(batch[:, :, None], targets[:, None])
        return (weights[..., None] * each).sum(dim=1) + self.constants()[targets]

    def contributions(self, batch: Tensor, targets: Tensor) -> Tensor:
        """Return `[B, n]`: the terms; older copies of an item have none."""
        return self._term_of_each_slot(batch, targets) * newest_copies(batch)

    def score_coalitions(
        self, batch: Tensor, targets: Tensor, coalitions: Tensor, *, memory: int = MEMORY
    ) -> Tensor:
        """Return `[B, c]`, as products of the coalitions with the terms.

        In double precision, so that a score is the sum of its terms exactly.
        """
        terms = self._term_of_each_slot(batch, targets).double()
        distinct = torch.equal(newest_copies(batch), self.parts(batch))
        count, slots = coalitions.shape[-2:]
        if not distinct:
            coalitions = coalitions.expand(len(batch), count, slots)
        each = BYTES_PER_SLOT * max(1, slots) * (len(batch) if coalitions.ndim == 3 else 1)
        found = []
        for some in row_slices(count, max(1, memory // max(1, each))):
            counted = coalitions[..., some, :]
            if not distinct:
                counted = newest_copies(batch[:, None].where(counted, PAD))
            found.append((counted.double() @ terms[..., None])[..., 0])
        empty = self.constants()[targets].double()[:, None]
        return empty + (torch.cat(found, dim=1) if found else empty.new_zeros(len(batch), 0))

    def _term_of_each_slot(self, batch: Tensor, targets: Tensor) -> Tensor:
        """Return `[B, n]`: w_i m_ij, as if every slot counted; 0 at padding."""
        self.require_length(batch)
        return self.terms.at(batch, targets[:, None]) * self.slot_weights(batch.shape[1])


def newest_copies(batch: Tensor) -> Tensor:
    """Return bool `[…, n]`: which slots hold an item that no newer slot holds."""
    ordered, slot = batch.sort(dim=-1, stable=True)
    last = torch.ones_like(ordered, dtype=torch.bool)
    last[..., :-1] = ordered[..., :-1] != ordered[..., 1:]
    return last.new_zeros(last.shape).scatter(-1, slot, last & (ordered != PAD))
