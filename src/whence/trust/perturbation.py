"""Altered inputs, of which a model predicts something else than of the whole ones.

All items' probabilities are held of a few inputs at a time, however many there are of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from whence.contract import ALL, Explainable
from whence.errors import InputError
from whence.memory import cases_at_once, inputs_at_once, memory_for, row_slices

LISTED: Final = 10
"""As many items as a list of recommendations has."""
BYTES_OF_A_SCORE: Final = 32
"""About what an item's score takes up while two distributions are compared."""


@dataclass(frozen=True, eq=False)
class FullPredictions:
    """`b` cases with all their parts, against which altered ones are held."""

    model: Explainable
    batch: Tensor
    """`[b, n]`."""
    parts: Tensor
    """`[b, n]`."""
    log_p: Tensor
    """`[b, items]`: the log-probability of every item."""
    top: Tensor
    """`[b, 10]`: the most probable items, best first."""
    memory: int
    """Bytes for what is held at a time, about."""

    def slices(self, inputs: int, bytes_each: int = 1) -> Iterator[slice]:
        """So many altered inputs, some at a time; each may bring some bytes of its own along."""
        fitting = _at_once(self.batch, self.log_p.shape[1], self.memory)
        return row_slices(inputs, max(1, min(fitting, self.memory // bytes_each)))

    def with_only(self, case: Tensor, present: Tensor) -> Tensor:
        """`[R, items]`: the log-probabilities of cases `[R]` with only some parts `[R, n]`."""
        return self.model.score(self.batch[case], ALL, present=present).log_softmax(dim=1)


def predict_full(
    model: Explainable, batch: Tensor, memory: int | None = None
) -> Iterator[tuple[slice, FullPredictions]]:
    """The cases of a batch, as many at a time as there is memory for."""
    memory = memory or memory_for(batch.device)
    items = model.score(batch[:1], ALL).shape[1]
    for cases in row_slices(len(batch), _at_once(batch, items, memory)):
        some = batch[cases]
        log_p = model.score(some, ALL).log_softmax(dim=1)
        top = log_p.topk(min(LISTED, items), dim=1).indices
        yield cases, FullPredictions(model, some, model.parts(some), log_p, top, memory)


def check_batch(batch: Tensor) -> None:
    """One sentence for what has nothing to alter."""
    if batch.ndim != 2 or not batch.numel():
        raise InputError(
            f"A batch is histories by slots, at least one of each, not of shape "
            f"{list(batch.shape)}."
        )


def _at_once(batch: Tensor, items: int, memory: int) -> int:
    """Inputs that a model may see at a time if it says the scores of so many items."""
    return min(
        inputs_at_once(batch.shape[1], memory),
        cases_at_once(items, batch.is_cuda),
        max(1, memory // (BYTES_OF_A_SCORE * items)),
    )
