"""Scores of all items for many cases, and the best items a user has not seen."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.arrays import Ints
from whence.contract import ALL
from whence.data.histories import Cases, newest_events
from whence.devices import device_of
from whence.errors import InputError
from whence.models.base import CaseReader


def top_unseen(
    model: CaseReader, cases: Cases, max_len: int, k: int
) -> tuple[Ints, npt.NDArray[np.float32]]:
    """Return `[B, k]` items the users have not seen, best first, and their scores.

    If a user has seen nearly all items, the list ends with items that score −∞.
    """
    if k < 1:
        raise InputError(f"The number of recommendations must be at least 1, not {k}.")
    scores = score_unseen(model, cases, max_len)
    if bool(scores.isnan().any()):
        raise InputError("The scores of the model are NaN. Train it again.")
    best = scores.topk(min(k, scores.shape[1]), dim=1)
    return best.indices.numpy(), best.values.numpy()


@torch.no_grad()
def score_unseen(model: CaseReader, cases: Cases, max_len: int) -> Tensor:
    """Return `[B, items]` scores on the CPU, −∞ for every item in the case's history."""
    scores = score_all(model, cases, max_len).cpu().clone()
    row, item = seen_items(cases)
    scores[row, item] = -torch.inf
    return scores


@torch.no_grad()
def score_all(model: CaseReader, cases: Cases, max_len: int) -> Tensor:
    """Return `[B, items]` scores on the model's device."""
    return model.score(model.read(cases, max_len).to(device_of(model)), ALL)


def batch_and_targets(model: CaseReader, cases: Cases, max_len: int) -> tuple[Tensor, Tensor]:
    """Return what the model reads of the cases, and the items that came next, on its device."""
    device = device_of(model)
    return model.read(cases, max_len).to(device), torch.from_numpy(cases.targets).to(device)


def seen_items(cases: Cases) -> tuple[Tensor, Tensor]:
    """Return all pairs of a case and an item in its history, however long the history is."""
    event, row = newest_events(cases.starts, cases.ends)
    return torch.from_numpy(row), torch.from_numpy(cases.items[event].astype(np.int64))
