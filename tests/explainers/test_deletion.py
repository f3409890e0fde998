"""The top items of an explainer matter more to a trained model than random items do.

If an explainer is specific to the target, removing its top items must lower the target's score more
than removing random ones. Otherwise it must change all recommendations more (Baumhauer 2021).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from conftest import lively_sasrec
from whence.arrays import Floats
from whence.contract import ALL
from whence.data import Split
from whence.explainers import EXPLAINERS, able, explain_batch
from whence.models import Recommender
from whence.run import Run
from whence.trust import symmetrised_kl

REMOVED, DRAWS, LENGTH = 2, 20, 12
METHODS = [name for name in able(lively_sasrec(), EXPLAINERS) if not EXPLAINERS[name].control]
FOR_THE_TARGET = [name for name in METHODS if EXPLAINERS[name].target_specific]
FOR_ALL = [name for name in METHODS if not EXPLAINERS[name].target_specific]

Change = Callable[[torch.Tensor], torch.Tensor]
"""From the parts present `[B, n]` to the change in each case."""


@pytest.fixture(scope="module")
def histories(split: Split) -> torch.Tensor:
    """Full histories, up to the validation and up to the test event."""
    held = (split.held["validation"], split.held["test"])
    batch = torch.from_numpy(np.concatenate([cases.histories(LENGTH) for cases in held]))
    return batch[(batch >= 0).all(dim=1)]


def lead_over_chance(change: Change, importance: Floats) -> Floats:
    """Return `[B]`: how much more the top items change than random ones, on average."""
    rng = np.random.default_rng(0)

    def without_first(values: Floats) -> torch.Tensor:
        first = torch.from_numpy(np.argsort(-values, axis=1)[:, :REMOVED].copy())
        return change(torch.ones(values.shape, dtype=torch.bool).scatter(1, first, False))

    chance = [without_first(rng.random(importance.shape)) for _ in range(DRAWS)]
    lead: Floats = (without_first(importance) - torch.stack(chance).mean(dim=0)).double().numpy()
    return lead


def certainty(leads: list[Floats]) -> float:
    """The mean lead in standard errors."""
    lead = np.concatenate(leads)
    return float(lead.mean() / (lead.std(ddof=1) / len(lead) ** 0.5))


def fall_of(model: Recommender, batch: torch.Tensor, targets: torch.Tensor) -> Change:
    full = model.score(batch, targets[:, None])[:, 0]
    return lambda present: full - model.score(batch, targets[:, None], present=present)[:, 0]


def movement_of(model: Recommender, batch: torch.Tensor) -> Change:
    """Between the distributions over the next item."""
    full = model.score(batch, ALL).log_softmax(dim=1)

    def moved(present: torch.Tensor) -> torch.Tensor:
        now = model.score(batch, ALL, present=present).log_softmax(dim=1)
        return symmetrised_kl(full, now)

    return moved


def falls(run: Run, histories: torch.Tensor, method: str) -> float:
    leads = []
    for model in run.models.values():
        batch = histories[:40]
        targets = model.score(batch, ALL).argmax(dim=1)
        found = explain_batch(model, batch, targets, method)
        importance = found.scores if found.signed else found.magnitude()
        leads.append(lead_over_chance(fall_of(model, batch, targets), importance))
    return certainty(leads)


def moves(run: Run, histories: torch.Tensor, method: str) -> float:
    leads = []
    for model in run.models.values():
        targets = model.score(histories, ALL).argmax(dim=1)
        found = explain_batch(model, histories, targets, method)
        leads.append(lead_over_chance(movement_of(model, histories), found.magnitude()))
    return certainty(leads)


@torch.no_grad()
@pytest.mark.parametrize("method", FOR_THE_TARGET)
def test_the_score_falls_without_the_top_items(
    run: Run, histories: torch.Tensor, method: str
) -> None:
    assert falls(run, histories, method) > 5


@torch.no_grad()
@pytest.mark.parametrize("method", FOR_ALL)
def test_the_recommendations_change_without_the_top_items(
    run: Run, histories: torch.Tensor, method: str
) -> None:
    assert moves(run, histories, method) > 3


@torch.no_grad()
def test_random_scores_do_neither(run: Run, histories: torch.Tensor) -> None:
    assert abs(falls(run, histories, "random")) < 2
    assert abs(moves(run, histories, "random")) < 2
