"""What training makes small."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.models.base import Recommender
from whence.randomness import Drop
from whence.training.batches import Batch


def sampled_bce(model: Recommender, batch: Batch, drop: Drop) -> Tensor:
    """−log σ(h·e⁺) − log(1 − σ(h·e⁻)), the mean over all items that have a next one."""
    targets = torch.stack((batch.positives, batch.negatives), dim=-1)
    positive, negative = model.next_scores(batch.inputs, targets, drop).unbind(-1)
    losses = F.softplus(-positive) + F.softplus(negative)
    real = batch.inputs.real
    return (losses * real).sum() / real.sum()
