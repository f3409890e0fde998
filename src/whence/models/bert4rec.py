"""BERT4Rec (Sun et al. 2019) as Baumhauer (2021) prints it.

The blocks, the tied item embeddings and the left padding are SASRec's, but a row sees all rows. The
network has one extra embedding, [CLS] in the paper and [MASK] elsewhere. In training it
replaces masked items. For a prediction it fills a last slot after the newest item, whose row
answers. So `n − 1` of the network's `n` slots hold items.
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
from whence.models.losses import log_sum_exp, mean_where, sampled_bce
from whence.models.registry import MODELS, ModelSpec, items_only
from whence.models.tasks import AnyBatch, Batch, Cloze
from whence.models.transformer import Transformer, TransformerConfig
from whence.randomness import DropoutFunction


@dataclass(frozen=True)
class BERT4RecConfig(TransformerConfig):
    """The sizes of the network; the defaults are those of Baumhauer (2021) for MovieLens."""

    max_len: int = 49
    """The longest history the model reads; older items are left out."""
    mask_prob: float = 0.2
    """The share of items that training masks; at least one of every history."""
    last_mask_prob: float = 0.0
    """The share of histories in which training masks only the last item.

    The original BERT4Rec has one such copy per ten others, which is about 1/11.
    """
    loss: Literal["full", "sampled"] = "full"
    """The cross-entropy over all items, or over the masked item and one negative."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 <= self.mask_prob <= 1 and 0 <= self.last_mask_prob <= 1):
            raise InputError(
                f"mask_prob and last_mask_prob must be shares from 0 to 1, not {self.mask_prob} "
                f"and {self.last_mask_prob}."
            )


class BERT4Rec(Transformer):
    """The network, whose own last slot answers and is never masked."""

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
        """Append [CLS] after the newest item."""
        return torch.cat((rows, self.mask.expand(len(rows), 1, -1)), dim=1)

    def loss(self, batch: AnyBatch, drop: DropoutFunction) -> Tensor:
        """Return the mean cross-entropy over all masks."""
        assert isinstance(batch, Batch)
        assert batch.rows is not None
        inputs = batch.inputs
        asked = [batch.positives] if batch.negatives is None else [batch.positives, batch.negatives]
        # One look-up for inputs and targets makes one gradient of the item table.
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


MODELS.add(
    "bert4rec",
    ModelSpec(
        BERT4RecConfig,
        items_only(BERT4Rec),
        summary="Transformer that reads a history in both directions.",
    ),
    place=20,
)
