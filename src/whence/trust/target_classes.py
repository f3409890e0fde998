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
    """`B` histories with `t` targets each."""

    batch: Tensor
    """`[B, n]`."""
    targets: Tensor
    """`[B, t]`."""

    def __post_init__(self) -> None:
        check_batch(self.batch)
        if self.targets.ndim != 2 or len(self.targets) != len(self.batch) or not len(self):
            raise InputError(
                f"Every history has the same number of targets, at least one: {len(self.batch)} "
                f"rows of them, not {list(self.targets.shape)}."
            )

    def __len__(self) -> int:
        """How many pairs."""
        return self.targets.numel()

    def histories(self, rows: slice | Tensor) -> Tensor:
        """`[r]`: the numbers of the histories that some pairs are of."""
        return self._numbers(rows) // self.targets.shape[1]

    def pairs(self, rows: slice | Tensor) -> tuple[Tensor, Tensor]:
        """`[r, n]` and `[r]`: histories and targets of some pairs."""
        history, place = self.histories(rows), self._numbers(rows) % self.targets.shape[1]
        return self.batch[history], self.targets[history, place]

    def by_length(self, model: Explainable) -> tuple[TargetPairs, Tensor]:
        """Histories about as long one after another, and the number `[B]` that each had before."""
        order = model.parts(self.batch).sum(dim=1).argsort(stable=True)
        return TargetPairs(self.batch[order], self.targets[order]), order

    def slices(self, memory: int | None) -> Iterator[slice]:
        """All pairs, as many at a time as a model may see."""
        memory = memory or memory_for(self.batch.device)
        return row_slices(len(self), inputs_at_once(self.batch.shape[1], memory))

    def _numbers(self, rows: slice | Tensor) -> Tensor:
        """`[r]`, with no more of them in memory: there may be many millions of pairs."""
        if isinstance(rows, Tensor):
            return rows
        return torch.arange(*rows.indices(len(self)), device=self.batch.device)


def pair_classes(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    attention: Sequence[Tensor] | None = None,
) -> Tensor:
    """`[r, C]`: the logits of what may become of the pairs' targets `[r]`."""
    assert isinstance(model, HasClasses)
    return model.classes(batch, targets[:, None], attention=attention)[:, 0]


def attention_to_parts(weights: Sequence[Tensor], parts: Tensor) -> Tensor:
    """`[r, n]`: the last block's attention to each part, the mean over its heads; 0 elsewhere."""
    answering = weights[-1][:, :, -1, : parts.shape[1]]
    return answering.mean(dim=1).masked_fill(~parts, 0)


def strip_padding(model: Explainable, batch: Tensor) -> Tensor:
    """`[b, m]`: without the slots before every history, but for one where none has a part."""
    somebodys = model.parts(batch).any(dim=0).nonzero()
    return batch[:, int(somebodys[0]) if len(somebodys) else -1 :]


def class_predictions(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    true: Tensor,
    *,
    temperature: float = 1.0,
    memory: int | None = None,
) -> Predictions:
    """Of `t` targets `[B, t]` of every history, with their true classes `[B, t]`.

    Confidence is the softmax of the class predicted. The cases are in the order of the targets,
    history by history, and those of a history are of one user; `positives_and_negatives` tells them
    apart.
    """
    logits = class_logits(model, batch, targets, true, memory=memory)
    protocol = f"{type(model).__name__}, softmax of the predicted class"
    users = np.arange(len(targets)).repeat(targets.shape[1])
    return predictions_from_logits(logits, temperature, protocol).of_users(users)


def class_logits(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    true: Tensor,
    *,
    memory: int | None = None,
) -> Logits:
    """The same as logits, as many at a time as there is memory for: for `temperature_scaling`."""
    require(model, ("classes",), who="the calibration of classes")
    candidates = TargetPairs(batch, targets)
    check_true(targets, true)

    def go_through() -> Iterator[tuple[Tensor, Tensor]]:
        for rows in candidates.slices(memory):
            with torch.no_grad():
                logits = pair_classes(model, *candidates.pairs(rows))
            yield logits, true.flatten()[rows].to(logits.device)

    return go_through


def check_true(targets: Tensor, true: Tensor) -> None:
    """Refuse true classes that are not those of the targets."""
    if true.shape != targets.shape or true.is_floating_point():
        raise InputError(
            "Every target has one true class, a whole number: of shape "
            f"{list(targets.shape)}, not {true.dtype} of shape {list(true.shape)}."
        )


def positives_and_negatives(predictions: Predictions) -> dict[str, Predictions]:
    """What is liked, and all else, apart, as Jain (2019) draws them: a model may be sure of one.

    Of three classes, negatives are both what nothing came of and what is disliked.
    """
    liked = predictions.true == LIKED
    return {
        name: replace(predictions[rows], protocol=f"{predictions.protocol}; {name} alone")
        for name, rows in (("positives", liked), ("negatives", ~liked))
    }
