"""What the engine trains: its model, its batches, its loss, and how it is validated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

from whence.engine.averaging import AveragingRule
from whence.errors import InputError
from whence.randomness import DropoutFunction

ModelT = TypeVar("ModelT", bound=nn.Module)
BatchT = TypeVar("BatchT")
Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Plan:
    """How long to train, and what happens on the way."""

    steps: int | None
    """None trains until the batches end."""
    validate_every: int = 0
    """Steps between validations; 0 is never."""
    patience: int = 0
    """Validations without a better one before training stops and keeps the best; 0 is never."""
    clip: float | None = None
    """The largest norm of each seed's gradient."""
    precision: Precision = "float32"
    averaging: AveragingRule = "none"
    average_every: int = 1
    """Steps in an epoch of averaging."""
    average_start: int = 0
    """The step after which SWA starts."""
    snapshot_steps: frozenset[int] = frozenset()
    """The steps after which the weights are saved."""


class OutOfBatches(Exception):  # noqa: N818 - it is no error
    """A source has no batch for the next step."""


class BatchSource(Protocol):
    """A source of batches for a stack of seeds."""

    def prepare(self, step: int) -> Hashable:
        """Get the batch of a step ready; steps with equal answers have batches of equal shape.

        Raise `OutOfBatches` if there is none.
        """

    def draw(self, step: Tensor) -> Any:  # noqa: ANN401
        """Return the batch that was prepared: `[S, …]` for a stack, `[…]` for one seed."""

    def position(self) -> Sequence[int]:
        """Return what a checkpoint must hold besides the step; nothing if the step decides."""

    def seek(self, position: Sequence[int]) -> None:
        """Continue from such a position."""


class BatchStream(Generic[BatchT]):
    """Batches that are read one after another, epoch after epoch, for one seed."""

    def __init__(
        self, epoch: Callable[[int], Iterable[BatchT]], epochs: int | None = None, nothing: str = ""
    ) -> None:
        self._read_epoch, self._epochs, self._nothing = epoch, epochs, nothing
        self._epoch = self._place = 0
        """Complete epochs, and batches read since."""
        self._batches = iter(epoch(0))

    def prepare(self, step: int) -> Hashable:
        """Read the next batch."""
        found = self._next()
        if found is None:
            self._epoch, self._place = self._epoch + 1, 0
            if self._epochs is not None and self._epoch >= self._epochs:
                raise OutOfBatches
            self._batches = iter(self._read_epoch(self._epoch))
            found = self._next()
        if found is None:
            raise InputError(self._nothing or "There are no batches to learn from.")
        self._batch = found
        self._place += 1
        return None

    def _next(self) -> BatchT | None:
        return next(self._batches, None)

    def draw(self, step: Tensor) -> BatchT:
        """Return the batch that was read last."""
        return self._batch

    def position(self) -> Sequence[int]:
        """Return the epoch and the number of batches read in it."""
        return self._epoch, self._place

    def seek(self, position: Sequence[int]) -> None:
        """Skip the batches that were read before."""
        self._epoch, self._place = position
        self._batches = islice(self._read_epoch(self._epoch), self._place, None)


class Trainable(ABC, Generic[ModelT]):
    """One kind of training. A new kind overrides what differs from the defaults.

    The engine does the rest: steps, stacks of seeds, averaging, validation and early stopping,
    checkpoints, snapshots, the check for divergence, and recording on a GPU.
    """

    name: str
    """The name in the progress bar."""
    device: str
    plan: Plan
    metric: str = "validation loss"
    recordable: ClassVar[bool] = False
    """Whether a step reads nothing that lives on the processor, so that a GPU can replay it."""
    remedy: ClassVar[str] = "Lower learning_rate."
    """What to try after a divergence."""

    @abstractmethod
    def build(self, seed: int) -> ModelT:
        """Return a new model on its device, initialized by the seed."""

    @abstractmethod
    def batches(self, model: ModelT, seeds: Sequence[int], *, recorded: bool) -> BatchSource:
        """Return the source of the seeds' batches; recorded steps need few different shapes."""

    @abstractmethod
    def loss(self, model: ModelT, batch: Any, dropout: DropoutFunction) -> Tensor:  # noqa: ANN401
        """Return the loss of one seed on its batch."""

    @abstractmethod
    def learning_rate(self, step: int, validations: Sequence[float]) -> float:
        """Return the learning rate of a step, counted from 0.

        A rule that follows `validations` works for one seed at a time.
        """

    def optimizer(self, weights: Iterable[Tensor]) -> torch.optim.Optimizer:
        """Return the optimizer, whose learning rate the engine sets."""
        return torch.optim.Adam(weights, lr=self.learning_rate(0, ()), fused=True)

    def dropout(self, model: ModelT) -> tuple[float, int]:
        """Return the dropout rate, and how often a step applies dropout."""
        return 0.0, 1

    def restore(self, seed: int, weights: Mapping[str, Tensor]) -> ModelT:
        """Return a model with these weights, outside the training."""
        model = self.build(seed)
        model.load_state_dict(dict(weights))
        return model

    def validate(self, model: ModelT) -> float:
        """Return the metric on the validation data."""
        raise NotImplementedError

    def best(self, validations: Sequence[float]) -> int:
        """Return the index of the best validation, the first of equals."""
        return validations.index(min(validations))

    def phase(self, step: int) -> int:
        """Return the phase of a step. Each phase starts with a new optimizer."""
        return 0

    def start_phase(self, model: ModelT, phase: int) -> None:
        """Prepare a model for a phase that starts or is resumed."""

    def identity(self) -> Mapping[str, int]:
        """Return what must be equal for a checkpoint to be resumed."""
        return {}
