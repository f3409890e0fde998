"""Gradients: how strongly the score answers to a small change of each part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from whence.contract import Explainable
from whence.explainers.base import Attribution, Inquiry


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
    embedded = inquiry.model.embed(inquiry.batch)
    return gradient_at(inquiry.model, inquiry.batch, inquiry.targets, embedded)


def gradient_at(model: Explainable, batch: Tensor, targets: Tensor, embedded: Tensor) -> Tensor:
    """The same at other embeddings `[B, n, d]` than the parts' own."""
    with torch.enable_grad():
        place = embedded.detach().requires_grad_()
        score = model.score(batch, targets[:, None], embedded=place)
        (gradient,) = torch.autograd.grad(score.sum(), place)
    return gradient
