"""What several models say about a few items without each item of a history, really left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.contract import ALL, PAD
from whence.data.catalog import Catalog
from whence.devices import device_of
from whence.errors import InputError
from whence.memory import cases_at_once, row_slices
from whence.models.base import CaseReader, require_history
from whence.reasons.altered import candidates_of, without_each
from whence.reasons.figures import EQUAL


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The answers of S models on t asked items, without each of c items of a history."""

    raw: list[Any]
    """The raw ids of the items that are left out, newest first."""
    labels: list[str]
    log_probability: Tensor
    """`[S, 1 + c, t]`; row 0 is that of the whole history."""
    rank: Tensor
    """`[1 + c, t]`: by the whole recommender, from 1, among items that are not in the history."""


@torch.no_grad()
def leave_out_each(
    models: Sequence[CaseReader],
    whole: CaseReader,
    items: npt.NDArray[np.int32],
    asked: Sequence[int],
    slots: int,
    catalog: Catalog,
) -> LeftOut:
    """Ask models that read the newest `slots` items of a history `[w]`; `whole` gives the ranks."""
    for model in (whole, *models):
        require_history(model, "this answer")
    history = torch.from_numpy(items.astype(np.int64)).to(device_of(whole))
    newest_first = candidates_of(history[None], slots).flip(1)
    candidates = newest_first[newest_first != PAD]
    without = without_each(history[None], candidates[None], slots)[0]
    histories = torch.cat((history[None, -slots:], without))
    targets = torch.tensor(asked, device=history.device)
    answers = {
        model: _answers(model, histories, targets, history, len(catalog))
        for model in dict.fromkeys((whole, *models))
    }
    found = torch.stack([answers[model][0] for model in models]).double().cpu()
    if not bool(found.isfinite().all()):
        raise InputError("The scores of the model are NaN or infinite. Train it again.")
    left_out = candidates.cpu().numpy()
    rank = answers[whole][1].cpu()
    return LeftOut(catalog.raw_ids(left_out), catalog.labels(left_out), found, rank)


def _answers(
    model: CaseReader, histories: Tensor, targets: Tensor, seen: Tensor, item_count: int
) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities and ranks `[r, t]` of a few targets `[t]`."""
    each = item_count * (1 + len(targets))
    found = []
    for rows in row_slices(len(histories), cases_at_once(each, histories.is_cuda)):
        scores = model.score(histories[rows], ALL)
        own = scores[:, targets]
        rivals = scores.index_fill(1, seen, -torch.inf)
        rank = 1 + (rivals[:, None] > own[..., None]).sum(dim=2)
        found.append((own - scores.logsumexp(dim=1, keepdim=True), rank))
    log_probability, rank = (torch.cat(column) for column in zip(*found, strict=True))
    return log_probability, rank


def mean_and_agreement(changes: Tensor) -> tuple[list[float], list[float]]:
    """Return the means of changes `[S, c]`, and the share of the models with the mean's sign."""
    mean = changes.mean(dim=0)
    sign, signs = (one.where(one.abs() > EQUAL, 0.0).sign() for one in (mean, changes))
    return mean.tolist(), (signs == sign).double().mean(dim=0).tolist()
