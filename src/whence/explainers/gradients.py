"""Gradients: how strongly the score responds to a small change of each part's embedding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whence.contract import Explainable
from whence.errors import InputError
from whence.explainers.base import EXPLAINERS, Attribution, Explainer, Request
from whence.memory import gradients_at_once, row_slices


@dataclass(frozen=True)
class GradientNorm(Explainer):
    """‖∂ score / ∂ e_j‖₂ for the embedding at slot j; the target's own embedding is held fixed."""

    method = "gradient-norm"
    needs = ("embed", "score")
    signed = False
    cost = "1"
    summary = "How strongly the score responds to a small change of each {part}."

    def __call__(self, request: Request) -> Attribution:
        """Make one backward pass for all cases: their scores do not depend on each other."""
        return Attribution(score_gradient(request).norm(dim=-1), evaluations=1)


@dataclass(frozen=True)
class GradientInput(Explainer):
    """Σ_d e_j·∂ score/∂ e_j: to first order, what the score loses as the embedding goes to 0."""

    method = "gradient-input"
    needs = ("embed", "score")
    signed = True
    cost = "1"
    summary = "How fast the score falls as {a_part}'s embedding begins to shrink."

    def __call__(self, request: Request) -> Attribution:
        """Make one backward pass for all cases."""
        embedded = request.embeddings()
        return Attribution((embedded * score_gradient(request)).sum(dim=-1), evaluations=1)


@dataclass(frozen=True)
class IntegratedGradients(Explainer):
    """Σ_d e_j·∫₀¹ ∂f(αe)/∂e_j dα (Sundararajan, Taly & Yan 2017).

    The baseline is all embeddings 0, with positions in place. The scores sum to f(e) − f(0), up to
    the error of Gauss–Legendre quadrature.
    """

    n_steps: int = 32
    """Points of the quadrature."""

    method = "integrated-gradients"
    needs = ("embed", "score")
    signed = True
    summary = (
        "What each {part}'s embedding adds to the score on the way from no embeddings to all of "
        "them."
    )

    def __post_init__(self) -> None:
        if self.n_steps < 1:
            raise InputError(f"n_steps is {self.n_steps}; integrated gradients need at least 1.")

    @property
    def cost(self) -> str:
        """Return one input per step."""
        return f"{self.n_steps:,}"

    def __call__(self, request: Request) -> Attribution:
        """Take as many steps of all cases at a time as memory has room for."""
        embedded = request.embeddings()
        point, weight = np.polynomial.legendre.leggauss(self.n_steps)  # on [−1, 1]
        alpha, share = (torch.from_numpy(one / 2).to(embedded) for one in (point + 1, weight))
        widest = max(embedded.shape[1], request.batch.shape[1])  # of parts, or of what they hold
        at_once = gradients_at_once(widest, request.memory) // max(1, len(embedded))
        mean = torch.zeros_like(embedded)
        for some in row_slices(self.n_steps, max(1, at_once)):
            steps = len(alpha[some])
            altered = alpha[some, None, None, None] * embedded  # [steps, B, n, d]
            slope = gradient_at(
                request.model,
                request.batch.repeat(steps, 1),
                request.targets.repeat(steps),
                altered.flatten(0, 1),
            )
            mean += torch.tensordot(share[some], slope.view_as(altered), dims=1)
        return Attribution((embedded * mean).sum(dim=-1), evaluations=self.n_steps)


def score_gradient(request: Request) -> Tensor:
    """Return `[B, n, d]`: the derivative of each case's score by its parts' embeddings."""
    embedded = request.embeddings()
    return gradient_at(request.model, request.batch, request.targets, embedded)


def gradient_at(model: Explainable, batch: Tensor, targets: Tensor, embedded: Tensor) -> Tensor:
    """Return the same derivative at other embeddings `[B, n, d]` than the parts' own."""
    with torch.enable_grad():
        point = embedded.detach().requires_grad_()
        score = model.score(batch, targets[:, None], embedded=point)
        (gradient,) = torch.autograd.grad(score.sum(), point)
    return gradient


EXPLAINERS.add("gradient-norm", GradientNorm(), aliases=("saliency",), tags=("audit",), place=30)
EXPLAINERS.add(
    "gradient-input", GradientInput(), aliases=("input-x-gradient",), tags=("audit",), place=31
)
EXPLAINERS.add("integrated-gradients", IntegratedGradients(), tags=("usual", "audit"), place=32)
