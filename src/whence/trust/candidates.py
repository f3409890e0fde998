"""Candidates: histories, and the targets that a model is asked about for each of them.

A pair of a history and one of its targets is one input of the model, so that attention may depend
on the target; pairs are numbered history by history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from whence.contract import Explainable
from whence.errors import InputError
from whence.memory import inputs_at_once, memory_for, row_slices
from whence.trust.altered import check_batch


@dataclass(frozen=True, eq=False)
class Candidates:
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

    def by_length(self, model: Explainable) -> tuple[Candidates, Tensor]:
        """Histories about as long one after another, and the number `[B]` that each had before."""
        order = model.parts(self.batch).sum(dim=1).argsort(stable=True)
        return Candidates(self.batch[order], self.targets[order]), order

    def slices(self, memory: int | None) -> Iterator[slice]:
        """All pairs, as many at a time as a model may see."""
        memory = memory or memory_for(self.batch.device)
        return row_slices(len(self), inputs_at_once(self.batch.shape[1], memory))

    def _numbers(self, rows: slice | Tensor) -> Tensor:
        """`[r]`, with no more of them in memory: there may be many millions of pairs."""
        if isinstance(rows, Tensor):
            return rows
        return torch.arange(*rows.indices(len(self)), device=self.batch.device)


def classes_of(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    attention: Sequence[Tensor] | None = None,
) -> Tensor:
    """`[r, C]`: the logits of what may become of the pairs' targets `[r]`."""
    return model.classes(batch, targets[:, None], attention=attention)[:, 0]


def attention_to(weights: Sequence[Tensor], parts: Tensor) -> Tensor:
    """`[r, n]`: the last block's attention to each part, the mean over its heads; 0 elsewhere."""
    answering = weights[-1][:, :, -1, : parts.shape[1]]
    return answering.mean(dim=1).masked_fill(~parts, 0)


def without_padding(model: Explainable, batch: Tensor) -> Tensor:
    """`[b, m]`: without the slots before every history, but for one where none has a part."""
    somebodys = model.parts(batch).any(dim=0).nonzero()
    return batch[:, int(somebodys[0]) if len(somebodys) else -1 :]
