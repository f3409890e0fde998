"""Attention rollout (Abnar & Zuidema 2020): attention followed down through all blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from whence.contract import HasAttentions
from whence.explainers.base import Attribution, Inquiry
from whence.explainers.fading import attention_gradients


@dataclass(frozen=True)
class Rollout:
    """The last row of Ā⁽ᵇ⁾ ⋯ Ā⁽¹⁾, where Ā = (mean over heads of A + I) / 2."""

    method: ClassVar[str] = "rollout"
    needs: ClassVar[tuple[str, ...]] = ("attentions",)
    signed: ClassVar[bool] = False
    cost: ClassVar[str] = "1"
    words: ClassVar[str] = "How much of each {part} reaches the answer through all blocks."

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """The same for every target: attention does not ask which item is meant."""
        assert isinstance(inquiry.model, HasAttentions)
        weights = inquiry.model.attentions(inquiry.batch, inquiry.targets)
        return Attribution(rollout(weights), evaluations=1)


def rollout(attentions: list[Tensor]) -> Tensor:
    """`[B, n]` from one `[B, heads, q, n]` a block, first block first.

    Only the answering row is carried down, so a block costs a vector times a matrix.
    """
    *below, last = (weights.mean(dim=1) for weights in attentions)
    reach = last[:, -1].clone()  # [B, n]
    if has_own_slot(last, len(attentions)):
        reach = reach / 2
        reach[:, -1] += 0.5
    for weights in reversed(below):
        reach = (reach + (reach[:, None] @ weights)[:, 0]) / 2
    return reach


def has_own_slot(block: Tensor, blocks: int) -> bool:
    """Whether the rows of one of several blocks `[…, q, n]` stand in slots, to be added from there.

    A single row over several slots pools them, and stands in none; a single row over one slot in a
    single block is the same either way, unless its weight is not 1: so it counts as pooling.
    """
    rows, slots = block.shape[-2:]
    return rows == slots and (slots > 1 or blocks > 1)


# Rollout of attention weighted by its gradients (Chefer, Gur & Wolf 2021).


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
