"""SASRec (Kang & McAuley 2018) as Baumhauer (2021) prints it.

Items `i_1 … i_n` become rows `S⁽⁰⁾ = e + p`; `b` blocks follow, each

    g(S)     = Dropout(Attention(S, S, S)) + S
    Block(S) = LayerNorm(Dropout(FFN(LayerNorm(g(S)))) + g(S))

and the last row `h_n` scores the item `i` by `h_n · e_i`, with the same `e` as at the input.
Every row sees itself and the rows before it. Padding is on the left, so that the newest item is
always in the last slot, with the last position.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from whence.models.lookup import look_up, look_up_few
from whence.models.losses import mean_where, sampled_bce
from whence.models.packed import Packed
from whence.models.tasks import AnyBatch, Batch
from whence.models.transformer import Transformer, TransformerConfig
from whence.randomness import DropoutFunction


@dataclass(frozen=True)
class SASRecConfig(TransformerConfig):
    """Those of every transformer."""


class SASRec(Transformer):
    """The network, whose newest row answers."""

    causal = True

    def loss(self, batch: AnyBatch, drop: DropoutFunction) -> Tensor:
        """The cross-entropy with one negative, the mean over all items that have a next one."""
        assert isinstance(batch, Batch)
        assert batch.negatives is not None
        targets = torch.stack((batch.positives, batch.negatives), dim=-1)
        positive, negative = self.next_scores(batch.inputs, targets, drop).unbind(-1)
        return mean_where(batch.inputs.real, batch.weigh(sampled_bce(positive, negative)))

    def next_scores(self, batch: Packed, targets: Tensor, drop: DropoutFunction) -> Tensor:
        """`[T, t]`: after every item, the scores of its targets `[T, t]`."""
        # One look-up for inputs and targets, and so one gradient of the item table.
        embedded = look_up(self.item, torch.cat((batch.items[:, None], targets), dim=1))
        item, target = embedded.split((1, targets.shape[1]), dim=1)
        rows = drop(item[:, 0] + look_up_few(self.position, batch.slots))
        rows = self.encode_packed(rows, batch, drop)
        scores: Tensor = (target * rows[:, None]).sum(dim=-1)
        return scores
