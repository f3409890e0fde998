"""Gradient × input: how much of the score each part's embedding carries, to first order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from whence.explainers.base import Attribution, Inquiry
from whence.explainers.gradient import score_gradient


@dataclass(frozen=True)
class GradientInput:
    """Σ_d e_j·∂ score/∂ e_j: to first order, what the score loses as the embedding goes to 0."""

    method: ClassVar[str] = "gradient-input"
    needs: ClassVar[tuple[str, ...]] = ("embed", "score")
    signed: ClassVar[bool] = True
    cost: ClassVar[str] = "1"
    words: ClassVar[str] = "How fast the score falls as {a_part}'s embedding begins to shrink."

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """One backward pass for all cases."""
        embedded = inquiry.model.embed(inquiry.batch)
        return Attribution((embedded * score_gradient(inquiry)).sum(dim=-1), evaluations=1)
