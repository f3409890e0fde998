"""Expert selection: the experts of a network that names the inputs it used.

Expert i sees the parts in S_i and is selected with weight α_i (Afchar & Hennequin 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from whence.explainers.base import EXPLAINERS, Attribution, Explainer, Request

EPSILON: Final = 1e-9
"""Added to the denominator, for cases in which no expert is selected."""


@dataclass(frozen=True)
class ExpertSelection(Explainer):
    """Σ_{i: j ∈ S_i} α_i / |S_i|, as a share of Σ α: an expert's weight is split among its parts.

    This is part j's Shapley value in the game in which a coalition is worth the α of all experts
    whose inputs it contains.
    """

    method = "experts"
    needs = ("selections",)
    signed = False
    cost = "1"
    summary = "How much the network relied on experts that see each {part}."

    def __call__(self, request: Request) -> Attribution:
        """Return the shares; an expert that sees no part of the case gives its weight to none."""
        weights, sees = request.selections()
        each = sees / sees.sum(dim=2, keepdim=True).clamp(min=1)
        shared = (weights[..., None] * each).sum(dim=1)
        return Attribution(shared / (weights.sum(dim=1, keepdim=True) + EPSILON), evaluations=1)


EXPLAINERS.add("experts", ExpertSelection(), tags=("usual", "audit"), place=0)
