"""A linear layer whose first weights come from a generator, and not from PyTorch's global state."""

from __future__ import annotations

import torch
from torch import nn


def dense(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """Drawn after Glorot and Bengio (2010), without a bias yet."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
