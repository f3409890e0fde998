"""Raw attention: how much the answering row looks at each part, in one block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from whence.contract import HasAttentions
from whence.errors import InputError
from whence.explainers.base import Attribution, Inquiry


@dataclass(frozen=True)
class Attention:
    """α of one block: row n of its weights, the mean over its heads or one head alone."""

    block: int = -1
    """Counted from 1; -1 is the last."""
    head: int | None = None
    """Counted from 1; none takes the mean of all."""

    method: ClassVar[str] = "attention"
    needs: ClassVar[tuple[str, ...]] = ("attentions",)
    signed: ClassVar[bool] = False
    cost: ClassVar[str] = "1"

    @property
    def words(self) -> str:
        """With the block and the head it looks at."""
        block = "the last block" if self.block == -1 else f"block {self.block}"
        heads = "all its heads" if self.head is None else f"its head {self.head}"
        return f"How much {block} of the network looks at each {{part}}, by {heads}."

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """The same for every target, unless the model looks with the target in mind."""
        assert isinstance(inquiry.model, HasAttentions)
        blocks = inquiry.model.attentions(inquiry.batch, inquiry.targets)
        weights = blocks[_place(self.block, len(blocks), "block")]
        answering = weights[:, :, -1]  # [B, heads, n]
        if self.head is None:
            return Attribution(answering.mean(dim=1), evaluations=1)
        return Attribution(answering[:, _place(self.head, answering.shape[1], "head")], 1)


def _place(number: int, count: int, what: str) -> int:
    """From 1, 2, … or -1 to a Python index."""
    if number == -1:
        return count - 1
    if not 1 <= number <= count:
        raise InputError(f"There is no {what} {number}; this model has 1 to {count}.")
    return number - 1
