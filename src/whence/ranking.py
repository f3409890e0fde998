"""All items' scores for many histories, without what the user has met before."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.contract import ALL, Explainable
from whence.data.histories import Cases, newest_events
from whence.errors import InputError


def best_unmet(
    model: Explainable, cases: Cases, length: int, k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """`[B, k]`: the best unmet items and their scores, −∞ where there are no more of them."""
    if k < 1:
        raise InputError(f"Ask for at least one recommendation, not {k}.")
    scores = score_unmet(model, cases, length)
    best = scores.topk(min(k, scores.shape[1]), dim=1)
    return best.indices.numpy(), best.values.numpy()


@torch.no_grad()
def score_unmet(model: Explainable, cases: Cases, length: int) -> Tensor:
    """`[B, items]`, −∞ for every item in the case's history."""
    scores = score_all(model, cases, length).cpu().clone()
    row, item = met_items(cases)
    scores[row, item] = -torch.inf
    return scores


@torch.no_grad()
def score_all(model: Explainable, cases: Cases, length: int) -> Tensor:
    """`[B, items]`, on the model's device."""
    return model.score(model.read(cases, length).to(device_of(model)), ALL)


def questions_of(model: Explainable, cases: Cases, length: int) -> tuple[Tensor, Tensor]:
    """What the model reads of the cases, and the items that came next, where the model lives."""
    device = device_of(model)
    return model.read(cases, length).to(device), torch.from_numpy(cases.targets).to(device)


def device_of(model: Explainable) -> torch.device:
    """Where the model lives."""
    weights = model.parameters() if isinstance(model, torch.nn.Module) else iter(())
    return next((weight.device for weight in weights), torch.device("cpu"))


def met_items(cases: Cases) -> tuple[Tensor, Tensor]:
    """Every (case, item) pair of an item in the case's history, however long."""
    event, row = newest_events(cases.starts, cases.ends)
    return torch.from_numpy(row), torch.from_numpy(cases.items[event].astype(np.int64))
