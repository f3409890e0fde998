"""Training on tables: Adam over batches of rows and labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from whence.devices import device_of
from whence.engine import BatchStream, Plan, Trainable, Training
from whence.errors import InputError
from whence.experts.tabular import TabularModel, check_paired
from whence.experts.targets import check_labels
from whence.memory import reuse_freed_memory, row_slices
from whence.randomness import DropoutFunction

LEARNING_RATE = 1e-3

Batch = tuple[Tensor, Tensor]


def fit(
    model: TabularModel, batches: Iterable[Batch], learning_rate: float = LEARNING_RATE
) -> list[float]:
    """Train a model, one step per batch, and return the loss of every step."""
    reuse_freed_memory()
    training = Training(TrainableTable(model, batches, learning_rate), [0])
    return training.run(show_progress=False)[0].losses


class TrainableTable(Trainable[TabularModel]):
    """A model that exists already, on batches of rows and labels."""

    plan = Plan(steps=None)

    def __init__(self, model: TabularModel, batches: Iterable[Batch], learning_rate: float) -> None:
        self.name = type(model).__name__
        self.model, self.rate = model, learning_rate
        self.rows_and_labels = batches
        self.device = str(device_of(model))

    def build(self, seed: int) -> TabularModel:
        """Return the model itself."""
        return self.model

    def restore(self, seed: int, weights: Mapping[str, Tensor]) -> TabularModel:
        """Return the model itself."""
        return self.model

    def batches(
        self, model: TabularModel, seeds: Sequence[int], *, recorded: bool
    ) -> BatchStream[Batch]:
        """Read the batches once."""
        return BatchStream(lambda _: self.rows_and_labels, epochs=1)

    def loss(self, model: TabularModel, batch: Batch, dropout: DropoutFunction) -> Tensor:
        """Return the model's own loss."""
        rows, labels = batch
        if labels.device != torch.device(self.device):  # a loss does not check labels on a GPU
            check_labels(model.target, labels)
        return model.loss(rows.to(self.device), labels.to(self.device))

    def learning_rate(self, step: int, validations: Sequence[float]) -> float:
        """Return the same rate for every step."""
        return self.rate


def shuffled(
    rows: Tensor, labels: Tensor, size: int, epochs: int, generator: torch.Generator
) -> Iterator[Batch]:
    """Yield all rows once per epoch, each time in another order."""
    check_paired(rows, labels)
    for what, numbers in (("Rows", rows), ("Labels", labels)):
        if not numbers.isfinite().all():
            raise InputError(f"{what} contain NaN or inf. Fill them in or leave them out.")
    if size < 1:
        raise InputError(f"A batch must have at least one row, not {size}.")
    for _ in range(epochs):
        order = torch.randperm(len(rows), generator=generator)
        for some in row_slices(len(rows), size):
            yield rows[order[some]], labels[order[some]]
