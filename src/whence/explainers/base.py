"""What an explainer is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor

from whence.contract import Explainable


@dataclass(frozen=True, eq=False)
class Attribution:
    """What an explainer works out; what it says of slots without a part is not looked at."""

    scores: Tensor
    """`[B, n]`."""
    evaluations: int
    """Inputs the model scored for each case."""
    error: Tensor | None = None
    """`[B, n]` standard errors, where the method samples."""


class Explainer(Protocol):
    """A frozen dataclass whose fields are the method's parameters."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    method: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    """The capabilities it asks of a model."""
    signed: ClassVar[bool]
    """Whether it tells for from against."""

    @property
    def words(self) -> str:
        """What it says, in one sentence a newcomer understands."""
        ...

    def __call__(
        self, model: Explainable, batch: Tensor, targets: Tensor, seed: int
    ) -> Attribution:
        """The importance of each slot of each case for its target `[B]`."""
        ...
