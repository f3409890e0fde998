"""Which expert is selected, how experts learn, and how good a selection is.

Selection: α_i = g_i · Π_{j ∈ ω(i)} (1 − g_j), so the simplest confident expert gets the weight.

Training is generalised EM (equation 7 of Afchar & Hennequin 2020). The E-step is the selection
under the current weights, detached. The M-step is one gradient step on the experts' losses weighted
by it, for all experts at once. The paper and the published programs differ in the selection and in
the normalization of the weights; a `Recipe` names one combination.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import torch
from torch import Tensor

from whence.config import require_choice
from whence.errors import InputError
from whence.experts.family import Family
from whence.experts.targets import Target
from whence.measure import Measure, mean_measure

Shape = Literal["absolute", "square", "power"]
Normalization = Literal["none", "case", "expert", "batch"]
BATCH_EPSILON, EXPERT_EPSILON = 1e-6, 1e-9
"""Added to the denominators of the normalization, as in the published programs."""


@dataclass(frozen=True)
class Confidence:
    """g: an expert's confidence from 0 to 1, given the distance u of its output from ignorance.

    "absolute" is u, "square" is u², and "power" is u^p/(1 + u^{p−1}). Each is divided by its value
    at the largest distance, which gives |F|, F² and 2|F|^p/(1 + |F|^{p−1}) for tanh outputs.
    """

    shape: Shape = "square"
    power: float = 4.0

    def __post_init__(self) -> None:
        require_choice("shape", self.shape, Shape)
        if not self.power > 1:
            raise InputError(f"The power of a confidence must be above 1, not {self.power:g}.")

    def __call__(self, distance: Tensor, max_distance: float = 1.0) -> Tensor:
        """Return g of every expert, `[H, R]`."""
        if self.shape == "absolute":
            return distance / max_distance
        if self.shape == "square":
            return (distance / max_distance).square()
        largest = max_distance**self.power / (1 + max_distance ** (self.power - 1))
        confidence: Tensor = distance.pow(self.power) / (1 + distance.pow(self.power - 1)) / largest
        return confidence


@dataclass(frozen=True)
class Selection:
    """Turn the experts' confidences into the weights of their outputs."""

    confidence: Confidence = Confidence()
    include_own: bool = True
    """Whether α_i has its factor g_i. Inference always has it; in training the paper has it and
    the published code has not."""

    def __call__(self, family: Family, distance: Tensor, max_distance: float = 1.0) -> Tensor:
        """Return α of every expert, `[H, R]`."""
        confidence = self.confidence(distance, max_distance)
        inside = _inclusion(family.contained, confidence.device)
        left: Tensor = torch.where(inside, 1 - confidence, 1.0).prod(dim=1)
        return confidence * left if self.include_own else left


@cache
@torch.inference_mode(False)
def _inclusion(contained: tuple[tuple[int, ...], ...], device: torch.device) -> Tensor:
    """Return `[H, H, 1]`: whether the second expert lies strictly inside the first.

    Cached on the device, because a CUDA graph cannot copy from the host while it is recorded.
    """
    experts = range(len(contained))
    return torch.tensor([[[j in inside] for j in experts] for inside in contained], device=device)


@dataclass(frozen=True)
class Recipe:
    """How experts are selected in training and at inference, and how their losses are reduced.

    "none" is the mean over cases of Σ_i α_i L_i. "case" first divides the α of each case by their
    sum. "expert" then also divides each expert's losses by the sum of its α over the batch. "batch"
    is Σ α L / Σ α over the whole batch.
    """

    training: Selection
    inference: Selection
    normalization: Normalization

    def __post_init__(self) -> None:
        require_choice("normalization", self.normalization, Normalization)


SQUARE, POWER = Confidence("square"), Confidence("power")
PAPER: Final = Recipe(Selection(Confidence("absolute")), Selection(SQUARE), "none")
"""The text of the paper: |F| with the own factor in the E-step, F² at inference."""
NOTEBOOK: Final = Recipe(Selection(SQUARE), Selection(POWER), "expert")
"""The published notebook of the toy tasks."""
LIBRARY: Final = Recipe(Selection(SQUARE, include_own=False), Selection(SQUARE), "case")
"""The published class that wraps any network."""
SESSIONS: Final = Recipe(Selection(SQUARE, include_own=False), Selection(SQUARE), "batch")
"""The published program for skip prediction."""
MOVIELENS: Final = Recipe(Selection(POWER, include_own=False), Selection(POWER), "batch")
"""The published program for collaborative filtering, used with `Binary("sigmoid", 0.3)`."""
RECIPES: Final = {
    "paper": PAPER,
    "notebook": NOTEBOOK,
    "library": LIBRARY,
    "sessions": SESSIONS,
    "movielens": MOVIELENS,
}
DEFAULT: Final = SESSIONS
PLOTTED: Final = Selection(Confidence("absolute"))
"""The selection that the paper plots: |F| leaves more weight to simple experts than F² does."""


def expected_loss(
    recipe: Recipe,
    family: Family,
    target: Target,
    outputs: Tensor,
    labels: Tensor,
    valid: Tensor | None = None,
    trainable: Tensor | None = None,
) -> Tensor:
    """Return −Q(θ, θ_old) for expert outputs `[H, outputs, R]`.

    `valid` `[R]` masks rows, or weights them if it holds numbers. `trainable` `[H]` restricts the
    loss to some of the experts.
    """
    distance = target.distance(outputs.detach())
    weights = recipe.training(family, distance, target.max_distance)
    if trainable is not None:
        weights = weights * trainable[:, None]
    if valid is not None:
        weights, labels = weights * valid, labels.masked_fill(valid == 0, 0)
    return reduce_loss(recipe.normalization, weights, target.loss(outputs, labels), valid)


def reduce_loss(
    normalization: Normalization, weights: Tensor, losses: Tensor, valid: Tensor | None = None
) -> Tensor:
    """Reduce weights and losses `[H, R]` to one number."""
    if normalization == "batch":
        return (weights * losses).sum() / (weights.sum() + BATCH_EPSILON)
    if normalization == "expert":
        weights = weights / (weights.sum(dim=0) + EXPERT_EPSILON)
        return ((weights * losses).sum(dim=1) / (weights.sum(dim=1) + EXPERT_EPSILON)).sum()
    if normalization == "case":
        weights = weights / (weights.sum(dim=0) + BATCH_EPSILON)
    cases = weights.shape[1] if valid is None else valid.sum()
    return (weights * losses).sum() / cases


def expert_mask(family: Family, experts: Iterable[int], device: torch.device) -> Tensor:
    """Return a mask `[H]` of these experts."""
    chosen = torch.zeros(len(family), dtype=torch.bool, device=device)
    chosen[list(experts)] = True
    return chosen


def attribution_accuracy(attribution: Tensor, known: Tensor) -> Measure:
    """Measure how often the most selected expert is the known one.

    `attribution` `[B, H]` holds selections and `known` `[B]` the numbers of the known experts. A
    case whose largest selections tie counts as the fraction of them that is right.
    """
    if known.shape != attribution.shape[:1] or not len(known):
        raise InputError(
            f"There are selections for {len(attribution)} cases, but {len(known)} known experts. "
            "Pass one known expert for each case."
        )
    first = attribution == attribution.max(dim=1, keepdim=True).values
    right = first.gather(1, known[:, None])[:, 0] / first.sum(dim=1)
    return mean_measure(right.cpu().numpy(), "the most selected expert is the known one")


def accuracy(scores: Tensor, labels: Tensor) -> Measure:
    """Measure how often the class with the highest score `[B, K]` is the true one `[B]`."""
    if labels.shape != scores.shape[:1]:
        raise InputError(
            f"There are scores for {len(scores)} cases, but {len(labels)} labels. "
            "Pass one label for each case."
        )
    right = scores.argmax(dim=1) == labels
    return mean_measure(right.cpu().numpy(), "the class with the highest score is the true one")
