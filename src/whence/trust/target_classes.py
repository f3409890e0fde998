"""Targets asked about for each history, and the classes that a model predicts for them.

A pair of a history and one of its targets is one model input, because attention may depend on the
target. Pairs are numbered history by history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.capabilities import require
from whence.contract import Explainable, HasClasses
from whence.errors import InputError
from whence.memory import inputs_at_once, memory_for, row_slices
from whence.trust.perturbation import check_batch
from whence.trust.predictions import Logits, Predictions, predictions_from_logits

LIKED: Final = 0
"""The class of liked items, as the contract numbers them."""


@dataclass(frozen=True, eq=False)
class TargetPairs:
    """All pairs of `B` histories with their `t` targets."""

    batch: Tensor
    """`[B, n]`."""
    targets: Tensor
    """`[B, t]`."""

    def __post_init__(self) -> None:
        check_batch(self.batch)
        if self.targets.ndim != 2 or len(self.targets) != len(self.batch) or not len(self):
            raise InputError(
                f"Targets must be [{len(self.batch)}, t] with at least one target per history, not "
                f"{list(self.targets.shape)}."
            )

    def __len__(self) -> int:
        """Return the number of pairs."""
        return self.targets.numel()

    def histories(self, rows: slice | Tensor) -> Tensor:
        """Return the number of the history of each of some pairs `[r]`."""
        return self._numbers(rows) // self.targets.shape[1]

    def pairs(self, rows: slice | Tensor) -> tuple[Tensor, Tensor]:
        """Return the histories `[r, n]` and the targets `[r]` of some pairs."""
        history, place = self.histories(rows), self._numbers(rows) % self.targets.shape[1]
        return self.batch[history], self.targets[history, place]

    def by_length(self, model: Explainable) -> tuple[TargetPairs, Tensor]:
        """Return the pairs with histories sorted by length, and their former numbers `[B]`."""
        order = model.parts(self.batch).sum(dim=1).argsort(stable=True)
        return TargetPairs(self.batch[order], self.targets[order]), order

    def slices(self, memory: int | None) -> Iterator[slice]:
        """Return slices of all pairs that fit into memory."""
        memory = memory or memory_for(self.batch.device)
        return row_slices(len(self), inputs_at_once(self.batch.shape[1], memory))

    def _numbers(self, rows: slice | Tensor) -> Tensor:
        """Return the numbers of some pairs `[r]` alone, because there may be many millions."""
        if isinstance(rows, Tensor):
            return rows
        return torch.arange(*rows.indices(len(self)), device=self.batch.device)


def pair_classes(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    attention: Sequence[Tensor] | None = None,
) -> Tensor:
    """Return the logits `[r, C]` of the classes of the pairs' targets `[r]`."""
    assert isinstance(model, HasClasses)
    return model.classes(batch, targets[:, None], attention=attention)[:, 0]


def attention_to_parts(weights: Sequence[Tensor], parts: Tensor) -> Tensor:
    """Return the last block's attention to each part `[r, n]`, averaged over heads; 0 elsewhere."""
    answering = weights[-1][:, :, -1, : parts.shape[1]]
    return answering.mean(dim=1).masked_fill(~parts, 0)


def strip_padding(model: Explainable, batch: Tensor) -> Tensor:
    """Return the batch `[b, m]` without leading slots that are padding in every history."""
    used = model.parts(batch).any(dim=0).nonzero()
    return batch[:, int(used[0]) if len(used) else -1 :]


def class_predictions(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    true: Tensor,
    *,
    temperature: float = 1.0,
    memory: int | None = None,
) -> Predictions:
    """Return the predictions for the targets `[B, t]`, given their true classes `[B, t]`.

    Confidence is the softmax of the predicted class. The cases are ordered history by history, and
    those of one history count as one user's; `positives_and_negatives` separates them.
    """
    logits = class_logits(model, batch, targets, true, memory=memory)
    protocol = f"{type(model).__name__}, softmax of the predicted class"
    users = np.arange(len(targets)).repeat(targets.shape[1])
    return predictions_from_logits(logits, temperature, protocol).with_users(users)


def class_logits(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    true: Tensor,
    *,
    memory: int | None = None,
) -> Logits:
    """Return the logits of the targets' classes, such as for `temperature_scaling`."""
    require(model, ("classes",), who="the calibration of classes")
    candidates = TargetPairs(batch, targets)
    check_true(targets, true)

    def iterate() -> Iterator[tuple[Tensor, Tensor]]:
        for rows in candidates.slices(memory):
            with torch.no_grad():
                logits = pair_classes(model, *candidates.pairs(rows))
            yield logits, true.flatten()[rows].to(logits.device)

    return iterate


def check_true(targets: Tensor, true: Tensor) -> None:
    """Raise unless there is one true class per target."""
    if true.shape != targets.shape or true.is_floating_point():
        raise InputError(
            f"True classes must be whole numbers of shape {list(targets.shape)}, one per target, "
            f"not {true.dtype} of shape {list(true.shape)}."
        )


def positives_and_negatives(predictions: Predictions) -> dict[str, Predictions]:
    """Separate liked targets from all others, as Jain (2019) does.

    With three classes, the negatives are the ignored and the disliked targets.
    """
    liked = predictions.true == LIKED
    return {
        name: replace(predictions[rows], protocol=f"{predictions.protocol}; {name} alone")
        for name, rows in (("positives", liked), ("negatives", ~liked))
    }
