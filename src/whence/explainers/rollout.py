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
    words: ClassVar[str] = "How much of each item reaches the answer through all blocks."

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """The same for every target: attention does not ask which item is meant."""
        return Attribution(rollout(inquiry.model.attentions(inquiry.batch)), evaluations=1)


def rollout(attentions: list[Tensor]) -> Tensor:
    """`[B, n]` from one `[B, heads, q, n]` a block, first block first.

    Only the answering row is carried down, so a block costs a vector times a matrix. Where a last
    block has a single query, it pools the slots and has no slot of its own to add.
    """
    *below, last = (weights.mean(dim=1) for weights in attentions)
    reach = last[:, -1].clone()  # [B, n]
    if last.shape[1] > 1:
        reach = _with_itself(reach, last.shape[1] - 1)
    for weights in reversed(below):
        reach = (reach + (reach[:, None] @ weights)[:, 0]) / 2
    return reach


def _with_itself(row: Tensor, slot: int) -> Tensor:
    """One row of (A + I) / 2."""
    row = row / 2
    row[:, slot] += 0.5
    return row
