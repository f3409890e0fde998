"""All items' scores for many histories, without what the user has met before."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from whence.contract import ALL, Explainable
from whence.data.histories import Cases


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
