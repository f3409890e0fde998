"""Predictions on perturbed inputs, compared with those on the full inputs.

The probabilities of all items are held for only a few inputs at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from whence.contract import ALL, Explainable
from whence.errors import InputError
from whence.memory import cases_at_once, inputs_at_once, memory_for, row_slices

TOP_TEN: Final = 10
"""The length of a list of recommendations."""
BYTES_OF_A_SCORE: Final = 32
"""About what one item's score takes while two distributions are compared."""


@dataclass(frozen=True, eq=False)
class FullPredictions:
    """The predictions for `b` cases with all their parts."""

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
    """About how many bytes to use at a time."""

    def slices(self, inputs: int, bytes_each: int = 1) -> Iterator[slice]:
        """Return slices of perturbed inputs that fit into memory; each may need extra bytes."""
        fitting = _fitting(self.batch, self.log_p.shape[1], self.memory)
        return row_slices(inputs, max(1, min(fitting, self.memory // bytes_each)))

    def log_p_with(self, case: Tensor, present: Tensor) -> Tensor:
        """Return log-probabilities `[R, items]` of cases `[R]` with only these parts `[R, n]`."""
        return self.model.score(self.batch[case], ALL, present=present).log_softmax(dim=1)


def predict_full(
    model: Explainable, batch: Tensor, memory: int | None = None
) -> Iterator[tuple[slice, FullPredictions]]:
    """Yield the predictions for a batch, in slices that fit into memory."""
    memory = memory or memory_for(batch.device)
    items = model.score(batch[:1], ALL).shape[1]
    for cases in row_slices(len(batch), _fitting(batch, items, memory)):
        some = batch[cases]
        log_p = model.score(some, ALL).log_softmax(dim=1)
        top = log_p.topk(min(TOP_TEN, items), dim=1).indices
        yield cases, FullPredictions(model, some, model.parts(some), log_p, top, memory)


def check_batch(batch: Tensor) -> None:
    """Raise if a batch has no histories or no slots."""
    if batch.ndim != 2 or not batch.numel():
        raise InputError(
            "A batch must be [histories, slots] with at least one of each, not of shape "
            f"{list(batch.shape)}."
        )


def _fitting(batch: Tensor, items: int, memory: int) -> int:
    """Return how many inputs fit into memory together with the scores of all items."""
    return min(
        inputs_at_once(batch.shape[1], memory),
        cases_at_once(items, batch.is_cuda),
        max(1, memory // (BYTES_OF_A_SCORE * items)),
    )
