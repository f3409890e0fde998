"""Where a model's batches come from, by the task it has."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from torch import Tensor

from whence.data.splits import Split
from whence.errors import InputError
from whence.models.base import Recommender
from whence.models.tasks import AnyBatch, Choices, WholeUsers
from whence.randomness import Randomness
from whence.training.choice_batches import ChoiceBatches
from whence.training.config import TrainingConfig
from whence.training.history_batches import Batches
from whence.training.user_batches import UserBatches


class Draws(Protocol):
    """One batch a seed and step, all seeds at once, whatever the task."""

    @property
    def steps_of_an_epoch(self) -> int:
        """How many steps ask as much as there is to ask."""

    def begin(self, step: int) -> Hashable:
        """Make ready for that step; steps that have the same answer have batches of one size."""

    def draw(self, step: Tensor) -> AnyBatch:
        """The batch of that step, which was begun."""


def batches_for(
    model: Recommender,
    split: Split,
    config: TrainingConfig,
    randomness: Sequence[Randomness],
    device: str,
    recorded: bool = False,
) -> Draws:
    """Those of the model's task; where steps are recorded, of few sizes."""
    task = model.task
    if not isinstance(task, Choices):
        return Batches(
            split,
            model.config.max_len,
            config.batch_size,
            randomness,
            device,
            one_size=recorded,
            task=task,
            absence=config.part_dropout,
        )
    if config.part_dropout:
        raise InputError(
            f"{type(model).__name__} is not trained on windows of histories, so none of its items "
            "can be absent; leave absence out."
        )
    if split.weights is not None:
        raise InputError(
            f"{type(model).__name__} is not trained on windows of histories, so its events cannot "
            "be weighed; leave weights out."
        )
    if isinstance(task, WholeUsers):
        return UserBatches(split, task, config.batch_size, randomness, device, few_sizes=recorded)
    return ChoiceBatches(split, task, config.batch_size, randomness, device)
