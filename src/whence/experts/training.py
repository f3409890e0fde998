"""Training on tables: Adam over batches of rows and truths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from whence.devices import device_of
from whence.errors import InputError
from whence.experts.tabular import TabularModel, check_paired
from whence.experts.targets import check_labels
from whence.memory import reuse_freed_memory, row_slices

LEARNING_RATE = 1e-3

Batch = tuple[Tensor, Tensor]


def fit(
    model: TabularModel, batches: Iterable[Batch], learning_rate: float = LEARNING_RATE
) -> list[float]:
    """One step a batch; the loss at every step."""
    reuse_freed_memory()
    device = device_of(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    losses: list[Tensor] = []
    for rows, truth in batches:
        if truth.device != device:  # a loss does not look at what lies on a GPU
            check_labels(model.target, truth)
        loss = model.loss(rows.to(device), truth.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist() if losses else []


def shuffled(
    rows: Tensor, truth: Tensor, size: int, epochs: int, generator: torch.Generator
) -> Iterator[Batch]:
    """All rows once an epoch, in another order every time."""
    check_paired(rows, truth)
    for what, numbers in (("Rows", rows), ("Truths", truth)):
        if not numbers.isfinite().all():
            raise InputError(
                f"{what} hold numbers that are not finite; fill them in or leave them out."
            )
    if size < 1:
        raise InputError(f"A batch has at least one row, not {size}.")
    for _ in range(epochs):
        order = torch.randperm(len(rows), generator=generator)
        for some in row_slices(len(rows), size):
            yield rows[order[some]], truth[order[some]]
