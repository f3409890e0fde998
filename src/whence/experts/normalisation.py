"""Layer normalisation over experts: each by the mean and spread of its own features alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from whence.experts.family import Family

EPSILON = 1e-6
"""Added to the variance, as in the published code."""


class ExpertNorm(nn.Module):
    """`[H, w, R]` to the same, with a learned gain and bias or, as published, without."""

    def __init__(self, family: Family, width: int, *, learned: bool = False) -> None:
        super().__init__()
        shape = (len(family), width, 1)
        self.gain = nn.Parameter(torch.ones(shape)) if learned else None
        self.bias = nn.Parameter(torch.zeros(shape)) if learned else None

    def forward(self, features: Tensor) -> Tensor:
        """(h − mean) / √(variance + ε)."""
        # `torch.var_mean` goes number by number across rows; means go row by row, as these lie.
        away = features - features.mean(dim=1, keepdim=True)
        normal = away * (away.square().mean(dim=1, keepdim=True) + EPSILON).rsqrt()
        if self.gain is None or self.bias is None:
            return normal
        return torch.addcmul(self.bias, normal, self.gain)
