"""SASRec (Kang & McAuley 2018) as Baumhauer (2021) prints it.

Every row of the transformer sees itself and the rows before it. The row of the newest item answers.
Training asks, after every item, for the item that came next and for one random negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from whence.models.lookup import look_up, look_up_few
from whence.models.losses import mean_where, sampled_bce
from whence.models.registry import MODELS, ModelSpec, items_only
from whence.models.tasks import AnyBatch, Batch, Packed
from whence.models.transformer import Transformer, TransformerConfig
from whence.randomness import DropoutFunction


@dataclass(frozen=True)
class SASRecConfig(TransformerConfig):
    """The settings of every transformer."""


class SASRec(Transformer):
    """The causal network."""

    causal = True

    def loss(self, batch: AnyBatch, drop: DropoutFunction) -> Tensor:
        """Return the mean cross-entropy with one negative, over all items that have a next one."""
        assert isinstance(batch, Batch)
        assert batch.negatives is not None
        targets = torch.stack((batch.positives, batch.negatives), dim=-1)
        positive, negative = self.next_scores(batch.inputs, targets, drop).unbind(-1)
        return mean_where(batch.inputs.real, batch.weigh(sampled_bce(positive, negative)))

    def next_scores(self, batch: Packed, targets: Tensor, drop: DropoutFunction) -> Tensor:
        """Return `[T, t]`: the scores of the targets `[T, t]` after every item."""
        # One look-up for inputs and targets makes one gradient of the item table.
        embedded = look_up(self.item, torch.cat((batch.items[:, None], targets), dim=1))
        item, target = embedded.split((1, targets.shape[1]), dim=1)
        rows = drop(item[:, 0] + look_up_few(self.position, batch.slots))
        rows = self.encode_packed(rows, batch, drop)
        scores: Tensor = (target * rows[:, None]).sum(dim=-1)
        return scores


MODELS.add(
    "sasrec",
    ModelSpec(
        SASRecConfig,
        items_only(SASRec),
        summary="Transformer that reads a history from left to right.",
    ),
    place=10,
)
