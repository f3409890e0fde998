"""What training makes small."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def sampled_bce(positive: Tensor, negative: Tensor) -> Tensor:
    """−log σ(h·e⁺) − log(1 − σ(h·e⁻)), from both scores."""
    return F.softplus(-positive) + F.softplus(negative)


def mean_where(asked: Tensor, losses: Tensor) -> Tensor:
    """The mean of the losses that count; the rest is filling."""
    return (losses * asked).sum() / asked.sum()
