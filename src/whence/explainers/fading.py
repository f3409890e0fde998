"""Fading: how the score responds as attention to a part begins to fade."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from whence.explainers.base import EXPLAINERS, Attribution, Explainer, Request


@dataclass(frozen=True)
class Fading(Explainer):
    """Σ over blocks, heads and rows i of A_ij (g_ij − Σ_k A_ik g_ik), with g = ∂ score / ∂ A.

    Multiply column j by λ before the softmax normalizes a row: this is the derivative of the score
    by λ at 1, and at λ = 0 the part is gone. So it is leave-one-out to first order, for all parts
    at once. A row that sees a single part has no other part to shift its weight to, so the score of
    a history of one item is 0.
    """

    method = "fading"
    needs = ("attentions", "score")
    signed = True
    cost = "b"
    summary = (
        "How fast the score falls as attention to {a_part} begins to fade; a negative score "
        "argues against the target."
    )

    def __call__(self, request: Request) -> Attribution:
        """Make one pass per block."""
        blocks = attention_gradients(request)
        fallen = []
        for weights, slope in blocks:
            moved = weights * (slope - (weights * slope).sum(dim=-1, keepdim=True))
            fallen.append(moved.sum(dim=(1, 2)))
        return Attribution(torch.stack(fallen).sum(dim=0), evaluations=len(blocks))


def attention_gradients(request: Request) -> list[tuple[Tensor, Tensor]]:
    """Return A and ∂ score / ∂ A of every block, `[B, heads, q, n]` each.

    These are total derivatives: the blocks above compute their own weights from the output of the
    changed block. That takes one pass per block.
    """
    model, batch, targets = request.model, request.batch, request.targets[:, None]
    weights = [block.detach() for block in request.attentions()]
    found = []
    for depth, block in enumerate(weights):
        with torch.enable_grad():
            own = block.clone().requires_grad_()
            above = [None] * (len(weights) - depth - 1)
            score = model.score(batch, targets, attention=[*weights[:depth], own, *above])
            (slope,) = torch.autograd.grad(score.sum(), own)
        found.append((block, slope))
    return found


EXPLAINERS.add("fading", Fading(), tags=("audit",), place=24)
