"""FISM (Kabbur et al. 2013): a target is liked as it resembles what was chosen before.

    logit = n^−α Σ_j p_j · q + b

As trained for the first vectors of DeepICF by Xue et al. (2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from whence.models.item_based import ItemBased, ItemBasedConfig, sum_of_squares, summed
from whence.models.pooling import Tiled


@dataclass(frozen=True)
class FISMConfig(ItemBasedConfig):
    """With the defaults of Xue et al. (2019)."""

    alpha: float = 0.0
    """How much a longer history counts for less: 0 adds, 1 takes the mean."""
    embedding_decay: float = 1e-7
    """What the square of every vector costs."""


class FISM(ItemBased):
    """The model."""

    config: FISMConfig

    def __init__(self, config: FISMConfig, item_count: int, generator: torch.Generator) -> None:
        super().__init__(config, item_count, generator)

    def pool(self, p: Tensor, q: Tensor, tiled: Tiled) -> Tensor:
        """n^−α Σ p_j."""
        return summed(p, tiled, self.config.alpha)

    def outputs(self, user: Tensor, q: Tensor, real: Tensor | None = None) -> Tensor:
        """The product with the target."""
        return (user * q).sum(dim=-1, keepdim=True)

    def penalty(self) -> Tensor:
        """λ (Σ p² + Σ q²)."""
        return self.config.embedding_decay * sum_of_squares(self.history, self.target)
