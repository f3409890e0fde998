"""What models learn from: the tasks they can be set, and the batches that training draws for them.

A model names its task and works out its own loss on a batch; it does not know how one is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from whence.models.packed import Packed


@dataclass(frozen=True)
class NextItem:
    """After every item: which one came next, and one that did not."""


@dataclass(frozen=True)
class Cloze:
    """Behind every mask: which item it hides."""

    share: float
    """γ, of the items that are masked; of every history at least one is."""
    only_last: float
    """The share of histories in which the last item is masked, and no other."""
    negatives: bool
    """Whether an item that is not hidden there is asked for too."""


Task = NextItem | Cloze


class Batch(NamedTuple):
    """Packed histories, and `M` questions about them: which item is right, and which is not.

    In a stack of seeds every tensor has the seeds before its other dimensions.
    """

    inputs: Packed
    positives: Tensor
    """`[M]`: the right items; `PAD` where there is no question."""
    negatives: Tensor | None = None
    """`[M]`: items that are not right, where the task has some."""
    rows: Tensor | None = None
    """`[M]`: the row that each question is about. None says that every row has one: `M = T`."""

    def of(self, number: int) -> Batch:
        """The batch of one seed of a stack."""
        negatives, rows = (
            None if one is None else one[number] for one in (self.negatives, self.rows)
        )
        return Batch(self.inputs.of(number), self.positives[number], negatives, rows)
