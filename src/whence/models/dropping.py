"""A model of histories from which removed items are dropped: older items move up.

What the model itself does instead, such as hiding an item from the others in its place, answers
another question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import torch
from torch import Tensor

from whence.capabilities import kind_of
from whence.contract import CAPABILITIES, DROPPED, MEMORY, PAD, All, Explainable, removals
from whence.errors import InputError
from whence.memory import inputs_at_once, row_slices
from whence.models.base import Recommender, refuse_removal_from_attention

FORWARDED: Final = (
    *(name for name in CAPABILITIES if name not in {"parts", "score", "score_coalitions"}),
    *("read", "probabilities", "predicts_probabilities", "config", "task"),
)
"""What the model offers whether or not parts are removed."""
M = TypeVar("M", bound=Explainable)
BYTES_PER_SLOT: Final = 64
"""About what a slot of a coalition takes while histories are packed and compared."""


class Dropping(Recommender):
    """The model, which reads what is left of a history as if there had never been more.

    Kept items move to the right, in their order, and padding fills the slots on the left. The batch
    is all there is: an older item that the model did not read does not move into a free slot.
    """

    removal = DROPPED
    model: Explainable

    def __init__(self, model: Explainable) -> None:
        super().__init__()
        self.model = model
        for name in FORWARDED:
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))

    @property
    def kind(self) -> str:
        """What messages call it: the kind of the model."""
        return kind_of(self.model)

    def parts(self, batch: Tensor) -> Tensor:
        """Return the parts of the model."""
        return self.model.parts(batch)

    def score(
        self,
        batch: Tensor,
        targets: Tensor | All,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return the scores for the items that are present."""
        refuse_removal_from_attention(present, attention)
        if present is not None:
            kept = self.parts(batch) & present
            batch = packed(batch, kept, PAD)
            embedded = None if embedded is None else packed(embedded, kept, 0)
        # A model without embeddings or attention need not know these arguments.
        given: dict[str, Any] = {"embedded": embedded, "attention": attention}
        used = {name: value for name, value in given.items() if value is not None}
        return self.model.score(batch, targets, **used)

    def score_coalitions(
        self, batch: Tensor, targets: Tensor, coalitions: Tensor, *, memory: int = MEMORY
    ) -> Tensor:
        """Return `[B, c]`; what is left of a case is scored once, however often it occurs."""
        count, slots = coalitions.shape[-2:]
        each = BYTES_PER_SLOT * max(1, slots * count)
        found = [
            self._score_cases(
                batch[cases],
                targets[cases],
                coalitions if coalitions.ndim == 2 else coalitions[cases],
                inputs_at_once(slots, memory),
            )
            for cases in row_slices(len(batch) if count else 0, max(1, memory // each))
        ]
        return torch.cat(found) if found else torch.zeros(len(batch), count, device=batch.device)

    def _score_cases(
        self, batch: Tensor, targets: Tensor, coalitions: Tensor, at_once: int
    ) -> Tensor:
        """Score the different histories of some cases, shorter ones first."""
        cases, count = len(batch), coalitions.shape[-2]
        kept = (self.parts(batch)[:, None] & coalitions).flatten(0, 1)
        case = torch.arange(cases, device=batch.device).repeat_interleave(count)
        rows = torch.cat((packed(batch[case], kept, PAD), case[:, None]), dim=1)
        # In ascending order, so padding comes first, and a slice has histories of similar lengths.
        different, place = rows.unique(dim=0, return_inverse=True)
        scores = [
            self.model.score(some[:, :-1], targets[some[:, -1], None])
            for some in different.split(at_once)
        ]
        return torch.cat(scores)[place, 0].view(cases, count)


def packed(values: Tensor, kept: Tensor, fill: int) -> Tensor:
    """Return `[R, n, …]`: the kept slots `[R, n]` of `values`, moved to the right, in order."""
    rest = (1,) * (values.dim() - 2)
    order = kept.byte().argsort(dim=1, stable=True)
    filled = values.where(kept.view(*kept.shape, *rest), fill)
    return filled.gather(1, order.view(*order.shape, *rest).expand_as(values))


def with_removal(model: M, removal: str | None) -> M | Dropping:
    """Return the model that removes parts in this way; `None` is the model's own."""
    if removal is None:
        return model
    require_removal(model, removal)
    return model if removal == removals(model)[0] else Dropping(model)


def require_removal(model: object, removal: str) -> None:
    """Raise `InputError` if parts of the model cannot be removed in this way."""
    offered = removals(model)
    if removal not in offered:
        raise InputError(
            f"{kind_of(model)} cannot remove parts by '{removal}'. Choose from: "
            f"{', '.join(offered)}."
        )


def unless_own(model: Explainable, removal: str | None) -> str | None:
    """Return the removal, or `None` if it is the model's own.

    With `None`, each of several models removes parts in its own way, as they do together.
    """
    return None if removal == model.removal else removal
