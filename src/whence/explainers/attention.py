"""Raw attention: how much the answering row attends to each part, in one block."""

from __future__ import annotations

from dataclasses import dataclass

from whence.errors import InputError
from whence.explainers.base import EXPLAINERS, Attribution, Explainer, Request


@dataclass(frozen=True)
class Attention(Explainer):
    """α of one block: the last row of its weights, as the mean of its heads or of one head."""

    block: int = -1
    """Which block, counted from 1; -1 is the last."""
    head: int | None = None
    """Which head, counted from 1; by default the mean of all heads."""

    method = "attention"
    needs = ("attentions",)
    signed = False
    cost = "1"

    @property
    def summary(self) -> str:
        """Name the block and the head."""
        block = "the last block" if self.block == -1 else f"block {self.block}"
        heads = "all its heads" if self.head is None else f"its head {self.head}"
        return f"How much {block} of the network attends to each {{part}}, by {heads}."

    def __call__(self, request: Request) -> Attribution:
        """Return the same for every target, unless the model attends by target."""
        blocks = request.attentions()
        weights = blocks[_index(self.block, len(blocks), "block")]
        answering = weights[:, :, -1]  # [B, heads, n]
        if self.head is None:
            return Attribution(answering.mean(dim=1), evaluations=1)
        return Attribution(answering[:, _index(self.head, answering.shape[1], "head")], 1)


def _index(number: int, count: int, what: str) -> int:
    """Return the Python index of 1, 2, … or -1."""
    if number == -1:
        return count - 1
    if not 1 <= number <= count:
        raise InputError(f"There is no {what} {number}; this model has 1 to {count}.")
    return number - 1


EXPLAINERS.add("attention-first", Attention(block=1), tags=("audit",), place=10)
EXPLAINERS.add("attention-last", Attention(), aliases=("attention",), tags=("audit",), place=11)
EXPLAINERS.add("attention-head", Attention(head=1), place=12)
