"""What an explainer is, and what it is asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from whence.contract import Explainable, score_coalitions
from whence.memory import MEMORY


@dataclass(frozen=True, eq=False)
class Inquiry:
    """What is asked of an explainer: which parts of these cases matter to their targets?"""

    model: Explainable
    batch: Tensor
    """`[B, n]`."""
    targets: Tensor
    """`[B]`: one of each case."""
    parts: Tensor
    """`[B, n]`: which slots are parts."""
    full: Tensor
    """`[B]`: f(N), the target's score with every part present."""
    empty: Tensor
    """`[B]`: f(∅), the same with none."""
    seed: int = 0
    memory: int = MEMORY
    """Bytes for what a model is shown at a time, about."""

    def __len__(self) -> int:
        """How many cases."""
        return len(self.targets)

    def __getitem__(self, cases: slice | Tensor) -> Inquiry:
        """The same of some cases."""
        return replace(
            self,
            batch=self.batch[cases],
            targets=self.targets[cases],
            parts=self.parts[cases],
            full=self.full[cases],
            empty=self.empty[cases],
        )


def inquire(
    model: Explainable, batch: Tensor, targets: Tensor, seed: int = 0, memory: int = MEMORY
) -> Inquiry:
    """With the full and the empty score, which everyone needs."""
    parts = model.parts(batch)
    all_and_none = torch.tensor([[True], [False]], device=batch.device).expand(-1, parts.shape[1])
    full, empty = score_coalitions(model, batch, targets, all_and_none, memory=memory).unbind(1)
    return Inquiry(model, batch, targets, parts, full, empty, seed, memory)


@dataclass(frozen=True, eq=False)
class Attribution:
    """What an explainer works out; what it says of slots without a part is not looked at."""

    scores: Tensor
    """`[B, n]`, where a model's own slots may follow."""
    evaluations: int | Tensor
    """Inputs the model scored beside the full and the empty one: for every case, or `[B]`."""
    error: Tensor | None = None
    """`[B, n]` standard errors, where the method samples."""


class Explainer(Protocol):
    """A frozen dataclass whose fields are the method's parameters."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    method: ClassVar[str]
    signed: ClassVar[bool]
    """Whether it tells for from against."""

    @property
    def cost(self) -> str:
        """Inputs the model scores a case: "1", "n" for n parts, "b" for b blocks, "at most 9"."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """The capabilities it asks of a model, beside parts and scores."""
        ...

    @property
    def words(self) -> str:
        """What it says, in one sentence a newcomer understands, with places for what parts are.

        Whoever speaks of a model fills in `{part}`, `{a_part}`, `{parts}`, `{whole}` and `{wholes}`
        by `Spoken.say`.
        """
        ...

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """The importance of each slot of each case for its target."""
        ...
