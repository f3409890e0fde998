"""What a case is made of as whole numbers, for what is drawn by a case's own content."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Floats
from whence.randomness import uniform_by_content


def uniform_by_case(
    stream: np.random.SeedSequence, batch: Tensor, parts: Tensor, targets: Tensor | None = None
) -> Floats:
    """`[B, n]`: a number in [0, 1) for every part, the same for the same case; 0 without a part.

    Slots that hold whole numbers count where they are parts. Of rows of real numbers all columns
    count, bit by bit. A target `[B]` counts as one more slot, before the others.
    """
    rows, used = batch, parts
    if batch.is_floating_point():
        rows = batch.double().view(torch.int64)
        used = torch.ones_like(rows, dtype=torch.bool)
    if targets is not None:
        rows = torch.column_stack((targets, rows))
        used = torch.column_stack((torch.ones_like(targets, dtype=torch.bool), used))
    drawn = uniform_by_content(stream, rows.cpu().numpy(), used.cpu().numpy())
    first = 0 if targets is None else 1
    kept = drawn[:, first : first + parts.shape[1]]
    return np.where(parts.cpu().numpy(), kept, 0.0)
