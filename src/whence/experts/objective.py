"""Generalised EM: who is selected under the old weights says how much each expert learns of a case.

The E-step is the selection under a stopped gradient; the M-step is one gradient step on the sum of
the experts' losses weighted by it (equation 7 of Afchar & Hennequin 2020), all experts at once.
The text and the published programs differ in the selection and in how weights are normalised.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor

from whence.config import require_choice
from whence.experts.family import Family
from whence.experts.selection import Confidence, Selection
from whence.experts.targets import Target

Normalisation = Literal["none", "case", "expert", "batch"]
SMALL, SMALLER = 1e-6, 1e-9
"""Added to what weights are divided by, as in the published programs."""


@dataclass(frozen=True)
class Recipe:
    """How experts are selected in training and in use, and how their losses are added up.

    "none" is the mean over cases of Σ_i α_i L_i; "case" the same with the α of each case divided by
    their sum; "expert" further divides each expert's losses by the sum of its α over the batch;
    "batch" is Σ α L / Σ α over the whole batch.
    """

    training: Selection
    inference: Selection
    normalisation: Normalisation

    def __post_init__(self) -> None:
        require_choice("normalisation", self.normalisation, Normalisation)


SQUARE, POWER = Confidence("square"), Confidence("power")
PAPER: Final = Recipe(Selection(Confidence("absolute")), Selection(SQUARE), "none")
"""The text of the paper: |F| in the E-step with its own factor, F² in use."""
NOTEBOOK: Final = Recipe(Selection(SQUARE), Selection(POWER), "expert")
"""The published program of the toy tasks."""
LIBRARY: Final = Recipe(Selection(SQUARE, own=False), Selection(SQUARE), "case")
"""The published class for any network."""
SESSIONS: Final = Recipe(Selection(SQUARE, own=False), Selection(SQUARE), "batch")
"""The published program of the skip prediction."""
MOVIELENS: Final = Recipe(Selection(POWER, own=False), Selection(POWER), "batch")
"""The published program of the collaborative filtering, with `Binary("sigmoid", 0.3)`."""
RECIPES: Final = {
    "paper": PAPER,
    "notebook": NOTEBOOK,
    "library": LIBRARY,
    "sessions": SESSIONS,
    "movielens": MOVIELENS,
}
DEFAULT: Final = SESSIONS
PLOTTED: Final = Selection(Confidence("absolute"))
"""By which selections are plotted in the paper; |F| leaves more to simple experts than F² does."""


def expected_loss(
    recipe: Recipe,
    family: Family,
    target: Target,
    answers: Tensor,
    truth: Tensor,
    valid: Tensor | None = None,
    learning: Tensor | None = None,
) -> Tensor:
    """−Q(θ, θ_old) of answers `[H, outputs, R]`.

    Rows that are not `valid` `[R]` do not count, and where it holds weights, others by theirs.
    Where not all experts learn at once, `learning` `[H]` says which do.
    """
    distance = target.distance(answers.detach())
    weights = recipe.training(family, distance, target.reach)
    if learning is not None:
        weights = weights * learning[:, None]
    if valid is not None:
        weights, truth = weights * valid, truth.masked_fill(valid == 0, 0)
    return add_up(recipe.normalisation, weights, target.loss(answers, truth), valid)


def those_learning(family: Family, experts: Iterable[int], device: torch.device) -> Tensor:
    """`[H]`: whether each is among these."""
    chosen = torch.zeros(len(family), dtype=torch.bool, device=device)
    chosen[list(experts)] = True
    return chosen


def add_up(
    normalisation: Normalisation, weights: Tensor, losses: Tensor, valid: Tensor | None = None
) -> Tensor:
    """One number from weights and losses `[H, R]`."""
    if normalisation == "batch":
        return (weights * losses).sum() / (weights.sum() + SMALL)
    if normalisation == "expert":
        weights = weights / (weights.sum(dim=0) + SMALLER)
        return ((weights * losses).sum(dim=1) / (weights.sum(dim=1) + SMALLER)).sum()
    if normalisation == "case":
        weights = weights / (weights.sum(dim=0) + SMALL)
    cases = weights.shape[1] if valid is None else valid.sum()
    return (weights * losses).sum() / cases
