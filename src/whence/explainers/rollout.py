"""Attention rollout (Abnar & Zuidema 2020): attention followed down through all blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from whence.explainers.base import Attribution, Inquiry


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
        return Attribution(
            rollout(inquiry.model.attentions(inquiry.batch, inquiry.targets)), evaluations=1
        )


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
