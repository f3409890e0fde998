"""Attention rollout (Abnar & Zuidema 2020): attention traced down through all blocks.

Gradient rollout (Chefer, Gur & Wolf 2021) weights the attention by its gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from whence.explainers.base import EXPLAINERS, Attribution, Explainer, Request
from whence.explainers.fading import attention_gradients


@dataclass(frozen=True)
class Rollout(Explainer):
    """The last row of Ā⁽ᵇ⁾ ⋯ Ā⁽¹⁾, where Ā = (mean over heads of A + I) / 2."""

    method = "rollout"
    needs = ("attentions",)
    signed = False
    cost = "1"
    summary = "How much of each {part} reaches the answer through all blocks."

    def __call__(self, request: Request) -> Attribution:
        """Return the same for every target: attention does not depend on the target."""
        return Attribution(rollout(request.attentions()), evaluations=1)


def rollout(attentions: list[Tensor]) -> Tensor:
    """Return `[B, n]` from one `[B, heads, q, n]` per block, first block first.

    Only the answering row is carried down, so a block costs one product of a vector and a matrix.
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
    """Return whether the rows of one of several blocks `[…, q, n]` stand in slots of their own.

    A single row over several slots pools them and stands in none. A single row over one slot in a
    single block gives the same result either way, unless its weight is not 1; it counts as pooling.
    """
    rows, slots = block.shape[-2:]
    return rows == slots and (slots > 1 or blocks > 1)


@dataclass(frozen=True)
class GradientRollout(Explainer):
    """The last row of (I + Ā⁽ᵇ⁾) ⋯ (I + Ā⁽¹⁾) − I, where Ā = mean over heads of (∇A ⊙ A)⁺.

    Rows are not normalized, as in the paper. The paper reads the product at [CLS] and leaves out
    what [CLS] keeps of itself. Here the answering slot can be an item, so only I is left out.
    """

    method = "gradient-rollout"
    needs = ("attentions", "score")
    signed = False
    target_specific = True
    cost = "b"
    summary = (
        "How much of each {part} reaches the answer through attention that argues for the target."
    )

    def __call__(self, request: Request) -> Attribution:
        """Make one pass per block."""
        blocks = attention_gradients(request)
        positive = [(weights * slope).clamp(min=0).mean(dim=1) for weights, slope in blocks]
        return Attribution(_roll(positive), evaluations=len(blocks))


def _roll(blocks: list[Tensor]) -> Tensor:
    """Return `[B, n]` from one Ā `[B, q, n]` per block, for the answering row only."""
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


EXPLAINERS.add("rollout", Rollout(), tags=("usual", "audit"), place=20)
EXPLAINERS.add("gradient-rollout", GradientRollout(), tags=("audit",), place=23)
