"""Experts: what a network that names the inputs it used says of its own parts.

Expert i sees the parts in S_i and is selected as far as α_i (Afchar & Hennequin 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from whence.contract import HasSelections
from whence.explainers.base import Attribution, Inquiry

NOTHING: Final = 1e-9
"""Added to what is divided by, for cases in which no expert is selected."""


@dataclass(frozen=True)
class Experts:
    """Σ_{i: j ∈ S_i} α_i / |S_i|, as a share of Σ α: each expert's weight is that of its parts.

    It is part j's Shapley value in the game where a coalition is worth the α of all experts that it
    shows enough.
    """

    method: ClassVar[str] = "experts"
    needs: ClassVar[tuple[str, ...]] = ("selections",)
    signed: ClassVar[bool] = False
    cost: ClassVar[str] = "1"
    words: ClassVar[str] = "How far the network relied on experts that see each {part}."

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """An expert that sees no part of the case gives its weight to none."""
        assert isinstance(inquiry.model, HasSelections)
        weights, sees = inquiry.model.selections(inquiry.batch, inquiry.targets)
        each = sees / sees.sum(dim=2, keepdim=True).clamp(min=1)
        shared = (weights[..., None] * each).sum(dim=1)
        return Attribution(shared / (weights.sum(dim=1, keepdim=True) + NOTHING), evaluations=1)
