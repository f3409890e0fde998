"""Shuffles of attention: its weights change places among the parts and keep their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from whence.errors import InputError
from whence.randomness import uniform_by_content

REPEATS: Final = 100
COPIES: Final = 3
"""Of the attention of an altered input, that are there at a time."""


def check_repeats(repeats: int) -> None:
    """One sentence for what is no shuffle."""
    if repeats < 1:
        raise InputError(f"Attention is shuffled at least once, not {repeats} times.")


def sources(batch: Tensor, parts: Tensor, repeat: Tensor, stream: np.random.SeedSequence) -> Tensor:
    """`[R, n]`: the slot that each slot has its weight from; what is no part keeps its own.

    The shuffle is decided by the stream, the row's own parts and the number of the repeat `[R]`,
    and so is the same whatever is asked of a history.
    """
    content = torch.column_stack((repeat, batch)).cpu().numpy()
    drawn = uniform_by_content(stream, content, F.pad(parts, (1, 0), value=True).cpu().numpy())
    places = torch.from_numpy(drawn[:, 1:]).to(parts.device).masked_fill(~parts, 1)
    home = (~parts).int().argsort(dim=1, stable=True)  # parts before the rest, each in slot order
    return torch.empty_like(home).scatter(1, home, places.argsort(dim=1, stable=True))


def moved(weights: Tensor, source: Tensor) -> Tensor:
    """`[R, heads, q, m]`: with the last row's weights from those slots, the model's own left.

    Writes into `weights`.
    """
    slots = source.shape[1]
    last = weights[:, :, -1, :slots]
    weights[:, :, -1, :slots] = last.gather(2, source[:, None].expand_as(last))
    return weights


def bytes_of_attention(own: Sequence[Tensor | None]) -> int:
    """About what the shuffled weights of an input take up."""
    return max(1, COPIES * sum(weights[0].nbytes for weights in own if weights is not None))
