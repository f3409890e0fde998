"""BERT4Rec (Sun et al. 2019) as Baumhauer (2021) prints it.

The blocks, the tied item embeddings and the left padding are SASRec's. A row sees all rows, before
and after it. One embedding of its own, [CLS] in the paper and [MASK] elsewhere, stands where an
item is hidden in training and in a last slot after the newest item when the model is asked; the row
of that slot answers. So of the network's `n` slots `n − 1` are for the items of a history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whence.contract import PAD
from whence.errors import InputError
from whence.models.lookup import look_up, look_up_few
from whence.models.losses import mean_where, sampled_bce
from whence.models.softmax import log_sum_exp
from whence.models.tasks import AnyBatch, Batch, Cloze
from whence.models.transformer import Transformer, TransformerConfig
from whence.randomness import DropoutFunction


@dataclass(frozen=True)
class BERT4RecConfig(TransformerConfig):
    """The sizes of the network; the defaults are the paper's for MovieLens."""

    max_len: int = 49
    """n − 1, the longest history it reads."""
    mask_prob: float = 0.2
    """γ, the share of items that training hides; of every history at least one is."""
    last_mask_prob: float = 0.0
    """The share of histories in which training hides the last item alone.

    The first BERT4Rec has one such copy of a history beside ten others: 1/11 is about that.
    """
    loss: Literal["full", "sampled"] = "full"
    """The cross-entropy over all items, or SASRec's, with one negative."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 <= self.mask_prob <= 1 and 0 <= self.last_mask_prob <= 1):
            raise InputError(
                f"mask_prob and last_mask_prob are shares from 0 to 1, not {self.mask_prob} and "
                f"{self.last_mask_prob}."
            )


class BERT4Rec(Transformer):
    """The network, whose own last slot answers; its column is never masked."""

    causal = False
    own_slots = 1

    def __init__(self, config: BERT4RecConfig, item_count: int, generator: torch.Generator) -> None:
        super().__init__(config, item_count, generator)
        self.task = Cloze(
            config.mask_prob, config.last_mask_prob, negatives=config.loss == "sampled"
        )
        self.mask = nn.Parameter(torch.zeros(config.dim))
        nn.init.normal_(self.mask.data, std=config.init_std, generator=generator)

    def with_own_slots(self, rows: Tensor) -> Tensor:
        """[CLS] after the newest item."""
        return torch.cat((rows, self.mask.expand(len(rows), 1, -1)), dim=1)

    def loss(self, batch: AnyBatch, drop: DropoutFunction) -> Tensor:
        """The mean over all masks: −log softmax(h · e)ᵢ over all items, or beside one negative."""
        assert isinstance(batch, Batch)
        assert batch.rows is not None
        inputs = batch.inputs
        asked = [batch.positives] if batch.negatives is None else [batch.positives, batch.negatives]
        # One look-up for inputs and targets, and so one gradient of the item table.
        embedded = look_up(self.item, torch.cat((inputs.items, *asked)))
        item, *targets = embedded.split([len(inputs.items), *map(len, asked)])
        hidden = inputs.real & (inputs.items == PAD)
        item = torch.where(hidden[:, None], self.mask, item)
        rows = drop(item + look_up_few(self.position, inputs.slots))
        rows = F.embedding(batch.rows, self.encode_packed(rows, inputs, drop))
        positive, *negative = ((rows * target).sum(dim=-1) for target in targets)
        if negative:
            losses = sampled_bce(positive, *negative)
        else:
            losses = log_sum_exp(rows, self.item) - positive
        return mean_where(batch.positives != PAD, batch.weigh(losses))
