"""Numbers that cannot be meant, found before they are used."""

from __future__ import annotations

import torch
from torch import Tensor


def first_wrong(values: Tensor, wrong: Tensor) -> float | None:
    """The first value where something is wrong; inside `torch.vmap` none can be looked at."""
    if torch._C._are_functorch_transforms_active() or not wrong.any():
        return None
    return float(values[wrong][0])
