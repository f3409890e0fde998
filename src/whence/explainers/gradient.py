"""Gradients: how strongly the score answers to a small change of each part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from whence.explainers.base import Attribution, Inquiry


@dataclass(frozen=True)
class GradientNorm:
    """‖∂ score / ∂ e_j‖₂ for the embedding at slot j; the target's own embedding is held fixed."""

    method: ClassVar[str] = "gradient-norm"
    needs: ClassVar[tuple[str, ...]] = ("embed", "score")
    signed: ClassVar[bool] = False
    words: ClassVar[str] = "How strongly the score answers to a small change of each item."

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """One backward pass for all cases: their scores do not depend on each other."""
        return Attribution(score_gradient(inquiry).norm(dim=-1), evaluations=1)


def score_gradient(inquiry: Inquiry) -> Tensor:
    """`[B, n, d]`: the derivative of each case's score by its parts' embeddings."""
    model, batch = inquiry.model, inquiry.batch
    with torch.enable_grad():
        embedded = model.embed(batch).detach().requires_grad_()
        score = model.score(batch, inquiry.targets[:, None], embedded=embedded)
        (gradient,) = torch.autograd.grad(score.sum(), embedded)
    return gradient
