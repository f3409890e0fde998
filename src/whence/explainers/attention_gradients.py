"""How the score answers to a change of each attention weight."""

from __future__ import annotations

import torch
from torch import Tensor

from whence.explainers.base import Inquiry


def attention_gradients(inquiry: Inquiry) -> list[tuple[Tensor, Tensor]]:
    """Of every block its weights A and ∂ score / ∂ A, `[B, heads, q, n]` each.

    It is the total derivative: the blocks above work out their own weights from what a changed
    block hands on. That takes one pass a block.
    """
    model, batch, targets = inquiry.model, inquiry.batch, inquiry.targets[:, None]
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
