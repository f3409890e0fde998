"""BERT4Rec (Sun et al. 2019) as Baumhauer (2021) prints it.

The blocks, the tied item embeddings and the left padding are SASRec's, but a row sees all rows. The
network has one extra embedding, [CLS] in the paper and [MASK] elsewhere. In training it
replaces masked items. For a prediction it fills a last slot after the newest item, whose row
answers. So `n − 1` of the network's `n` slots hold items.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from whence.contract import PAD
from whence.errors import InputError
from whence.models.losses import negatives_of
from whence.models.registry import MODELS, ModelSpec, items_only
from whence.models.tasks import Cloze, Packed
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
        self.task = Cloze(config.mask_prob, config.last_mask_prob, negatives_of(config))
        self.mask = nn.Parameter(torch.zeros(config.dim))
        self.draw_embeddings(self.mask.data[None], item_count, generator)

    def with_own_slots(self, rows: Tensor) -> Tensor:
        """Append [CLS] after the newest item."""
        return torch.cat((rows, self.mask.expand(len(rows), 1, -1)), dim=1)

    def packed_inputs(self, embedded: Tensor, batch: Packed, drop: DropoutFunction) -> Tensor:
        """Replace masked items by the mask."""
        hidden = batch.real & (batch.items == PAD)
        return super().packed_inputs(torch.where(hidden[:, None], self.mask, embedded), batch, drop)


MODELS.add(
    "bert4rec",
    ModelSpec(
        BERT4RecConfig,
        items_only(BERT4Rec),
        follows_data=True,
        summary="Transformer that reads a history in both directions.",
    ),
    place=20,
)
