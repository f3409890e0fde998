"""All items' scores for many histories, without what the user has met before."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.contract import ALL, Explainable
from whence.data.histories import Cases

SCORES_AT_ONCE: Final = 20_000_000
"""Bounds memory: rows at a time × items."""


def cases_at_once(item_count: int) -> int:
    """How many cases may be scored against the whole catalog at a time."""
    return max(1, SCORES_AT_ONCE // item_count)


@torch.no_grad()
def score_unmet(
    model: Explainable, cases: Cases, length: int, spare: Tensor | None = None
) -> Tensor:
    """`[B, items]`, −∞ for every item in the case's history, except the one to `spare` `[B]`."""
    history = torch.from_numpy(cases.histories(length)).to(device_of(model))
    scores = model.score(history, ALL).cpu().clone()
    if spare is not None:
        kept = scores.gather(1, spare[:, None])
    row, item = _met(cases)
    scores[row, item] = -torch.inf
    return scores if spare is None else scores.scatter(1, spare[:, None], kept)


def device_of(model: Explainable) -> torch.device:
    """Where the model lives."""
    if isinstance(model, torch.nn.Module):
        return next(model.parameters()).device
    return torch.device("cpu")


def _met(cases: Cases) -> tuple[Tensor, Tensor]:
    """Every (case, item) pair of an item in the case's history, however long."""
    sizes = cases.ends - cases.starts
    row = np.repeat(np.arange(len(cases)), sizes)
    event = np.arange(sizes.sum()) - np.repeat(sizes.cumsum() - sizes - cases.starts, sizes)
    return torch.from_numpy(row), torch.from_numpy(cases.items[event].astype(np.int64))
