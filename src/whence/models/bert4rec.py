"""BERT4Rec (Sun et al. 2019) as Baumhauer (2021) prints it.

The blocks, the tied item embeddings and the left padding are SASRec's. A row sees all rows, before
and after it. One embedding of its own, [CLS] in the paper and [MASK] elsewhere, stands where an
item is hidden in training and in a last slot after the newest item when the model is asked; the row
of that slot answers. So of the network's `n` slots `n − 1` are for the items of a history.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from whence.models.blocks import EMBEDDING_SPREAD
from whence.models.transformer import Transformer, TransformerConfig


@dataclass(frozen=True)
class BERT4RecConfig(TransformerConfig):
    """The sizes of the network; the defaults are the paper's for MovieLens."""

    length: int = 49
    """n − 1, the longest history it reads."""


class BERT4Rec(Transformer):
    """The network, whose own last slot answers; its column is never masked."""

    causal = False
    own_slots = 1

    def __init__(self, config: BERT4RecConfig, item_count: int, generator: torch.Generator) -> None:
        super().__init__(config, item_count, generator)
        self.mask = nn.Parameter(torch.zeros(config.width))
        nn.init.normal_(self.mask.data, std=EMBEDDING_SPREAD, generator=generator)

    def with_own_slots(self, rows: Tensor) -> Tensor:
        """[CLS] after the newest item."""
        return torch.cat((rows, self.mask.expand(len(rows), 1, -1)), dim=1)
