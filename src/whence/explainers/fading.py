"""Fading: how the score answers as attention to a part begins to fade."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from whence.contract import HasAttentions
from whence.explainers.base import Attribution, Inquiry


def attention_gradients(inquiry: Inquiry) -> list[tuple[Tensor, Tensor]]:
    """Of every block its weights A and ∂ score / ∂ A, `[B, heads, q, n]` each.

    It is the total derivative: the blocks above work out their own weights from what a changed
    block hands on. That takes one pass a block.
    """
    model, batch, targets = inquiry.model, inquiry.batch, inquiry.targets[:, None]
    assert isinstance(model, HasAttentions)
    weights = [block.detach() for block in model.attentions(batch, inquiry.targets)]
    found = []
    for depth, block in enumerate(weights):
        with torch.enable_grad():
            own = block.clone().requires_grad_()
            above = [None] * (len(weights) - depth - 1)
            score = model.score(batch, targets, attention=[*weights[:depth], own, *above])
            (slope,) = torch.autograd.grad(score.sum(), own)
        found.append((block, slope))
    return found


# ...


@dataclass(frozen=True)
class Fading:
    """Σ over blocks, heads and rows i of A_ij (g_ij − Σ_k A_ik g_ik), with g = ∂ score / ∂ A.

    It is the derivative of the score by λ at 1, when column j is multiplied by λ before the softmax
    divides by the sum; at λ = 0 the part is gone. So it is leave-one-out to first order, for all
    parts at once. A row that sees one part alone has nobody to hand its weight to: of a history of
    one item it says 0.
    """

    method: ClassVar[str] = "fading"
    needs: ClassVar[tuple[str, ...]] = ("attentions", "score")
    signed: ClassVar[bool] = True
    cost: ClassVar[str] = "b"
    words: ClassVar[str] = (
        "How fast the score falls as attention to {a_part} begins to fade; below 0 speaks against."
    )

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """One pass a block."""
        blocks = attention_gradients(inquiry)
        fallen = []
        for weights, slope in blocks:
            moved = weights * (slope - (weights * slope).sum(dim=-1, keepdim=True))
            fallen.append(moved.sum(dim=(1, 2)))
        return Attribution(torch.stack(fallen).sum(dim=0), evaluations=len(blocks))
