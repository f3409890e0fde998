"""Rollout of attention weighted by its gradients (Chefer, Gur & Wolf 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from whence.explainers.attention_gradients import attention_gradients
from whence.explainers.base import Attribution, Inquiry
from whence.explainers.rollout import has_own_slot


@dataclass(frozen=True)
class GradientRollout:
    """The last row of (I + Ā⁽ᵇ⁾) ⋯ (I + Ā⁽¹⁾) − I, where Ā = mean over heads of (∇A ⊙ A)⁺.

    Rows are not normalised, as in the paper. It reads the product at [CLS], whose way from itself
    to itself it leaves out; here the answering slot can be an item, so only the bare I is left out.
    """

    method: ClassVar[str] = "gradient-rollout"
    needs: ClassVar[tuple[str, ...]] = ("attentions", "score")
    signed: ClassVar[bool] = False
    cost: ClassVar[str] = "b"
    words: ClassVar[str] = (
        "How much of each {part} reaches the answer through attention that speaks for it."
    )

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """One pass a block."""
        blocks = attention_gradients(inquiry)
        speaking = [(weights * slope).clamp(min=0).mean(dim=1) for weights, slope in blocks]
        return Attribution(_roll(speaking), evaluations=len(blocks))


def _roll(blocks: list[Tensor]) -> Tensor:
    """`[B, n]` from one Ā `[B, q, n]` a block; only the answering row is carried down."""
    *below, last = blocks
    reach = last[:, -1].clone()
    own = has_own_slot(last, len(blocks))
    if own:
        reach[:, -1] += 1
    for weights in reversed(below):
        reach = reach + (reach[:, None] @ weights)[:, 0]
    if own:
        reach[:, -1] -= 1
    return reach
