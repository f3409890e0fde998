"""What every trainable recommender is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor, nn

from whence.contract import Explainable
from whence.data.splits import Split
from whence.models.tasks import AnyBatch, NextItem, Task
from whence.randomness import DropoutFunction


class ModelConfig(Protocol):
    """What every model's configuration has."""

    @property
    def max_len(self) -> int:
        """The longest history the model reads."""

    @property
    def dropout(self) -> float:
        """The share of values dropped in training."""


class Recommender(nn.Module, Explainable):
    """The contract, a configuration, and a loss to learn by."""

    config: ModelConfig
    task: Task = NextItem()
    """What it learns from."""
    drops: int = 1
    """How often `loss` drops, for then all is drawn at once; a wrong number only costs time."""

    def meet(self, split: Split) -> None:
        """Note what is known of users and items, where the model reads it; once, when new.

        Of events, only those for training may tell it anything.
        """

    def adopt(self, trained: Mapping[str, Recommender]) -> None:
        """Take first weights from trained models, by their names in the registry."""
        raise NotImplementedError

    def loss(self, batch: AnyBatch, drop: DropoutFunction) -> Tensor:
        """The mean over all questions of a batch that was drawn for the model's task.

        Seeds train together through `torch.vmap`: so no step in it may depend on a value, or write
        into a tensor that it was not given. Rows may be filling, up to the length of other seeds'
        batches; no statistic over rows may count them.
        """
        raise NotImplementedError
