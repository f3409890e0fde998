"""Gradients: how strongly the score answers to a small change of each part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from whence.contract import Explainable, HasEmbeddings
from whence.errors import InputError
from whence.explainers.base import Attribution, Inquiry
from whence.memory import gradients_at_once, row_slices


@dataclass(frozen=True)
class GradientNorm:
    """‖∂ score / ∂ e_j‖₂ for the embedding at slot j; the target's own embedding is held fixed."""

    method: ClassVar[str] = "gradient-norm"
    needs: ClassVar[tuple[str, ...]] = ("embed", "score")
    signed: ClassVar[bool] = False
    cost: ClassVar[str] = "1"
    words: ClassVar[str] = "How strongly the score answers to a small change of each {part}."

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """One backward pass for all cases: their scores do not depend on each other."""
        return Attribution(score_gradient(inquiry).norm(dim=-1), evaluations=1)


def score_gradient(inquiry: Inquiry) -> Tensor:
    """`[B, n, d]`: the derivative of each case's score by its parts' embeddings."""
    return gradient_at(inquiry.model, inquiry.batch, inquiry.targets, embeddings(inquiry))


def embeddings(inquiry: Inquiry) -> Tensor:
    """Return `[B, n, d]`, the embeddings of the parts."""
    assert isinstance(inquiry.model, HasEmbeddings)
    return inquiry.model.embed(inquiry.batch)


def gradient_at(model: Explainable, batch: Tensor, targets: Tensor, embedded: Tensor) -> Tensor:
    """The same at other embeddings `[B, n, d]` than the parts' own."""
    with torch.enable_grad():
        place = embedded.detach().requires_grad_()
        score = model.score(batch, targets[:, None], embedded=place)
        (gradient,) = torch.autograd.grad(score.sum(), place)
    return gradient


# Gradient × input: how much of the score each part's embedding carries, to first order.


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
        embedded = embeddings(inquiry)
        return Attribution((embedded * score_gradient(inquiry)).sum(dim=-1), evaluations=1)


# Integrated gradients (Sundararajan, Taly & Yan 2017): gradients on the way from nothing.


@dataclass(frozen=True)
class IntegratedGradients:
    """Σ_d e_j·∫₀¹ ∂f(αe)/∂e_j dα; their sum is f(e) − f(0), as far as the quadrature goes.

    The way leads from all embeddings 0, positions as they are, straight to the real ones; the
    integral is taken by Gauss and Legendre's rule of so many points.
    """

    points: int = 32

    method: ClassVar[str] = "integrated-gradients"
    needs: ClassVar[tuple[str, ...]] = ("embed", "score")
    signed: ClassVar[bool] = True
    words: ClassVar[str] = (
        "What each {part}'s embedding adds to the score on the way from no embeddings to all of "
        "them."
    )

    def __post_init__(self) -> None:
        if self.points < 1:
            raise InputError(f"Integrated gradients need at least one point, not {self.points}.")

    @property
    def cost(self) -> str:
        """One a point."""
        return f"{self.points:,}"

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """As many points of all cases at a time as memory has room for."""
        embedded = embeddings(inquiry)
        place, weight = np.polynomial.legendre.leggauss(self.points)  # on [−1, 1]
        way, share = (torch.from_numpy(one / 2).to(embedded) for one in (place + 1, weight))
        widest = max(embedded.shape[1], inquiry.batch.shape[1])  # of parts, or of what they hold
        at_once = gradients_at_once(widest, inquiry.memory) // max(1, len(embedded))
        mean = torch.zeros_like(embedded)
        for some in row_slices(self.points, max(1, at_once)):
            points = len(way[some])
            altered = way[some, None, None, None] * embedded  # [points, B, n, d]
            slope = gradient_at(
                inquiry.model,
                inquiry.batch.repeat(points, 1),
                inquiry.targets.repeat(points),
                altered.flatten(0, 1),
            )
            mean += torch.tensordot(share[some], slope.view_as(altered), dims=1)
        return Attribution((embedded * mean).sum(dim=-1), evaluations=self.points)
