"""The base classes of recommenders: what reads cases, and what can also be trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from whence.contract import Explainable, offers
from whence.data.histories import Cases
from whence.data.splits import Split
from whence.errors import CapabilityError
from whence.models.tasks import AnyBatch, NextItem, Task
from whence.randomness import DropoutFunction


class CaseReader(Explainable):
    """A model that reads cases, which are users with their histories, and scores all items."""

    reads_history: bool = True
    """Whether its parts are the items of a history.

    Otherwise they are groups of features, which `part_names` names, or the number of a user.
    """
    predicts_probabilities: bool = True
    """Whether a score is a logit. Otherwise it is a rating."""

    def read(self, cases: Cases, max_len: int) -> Tensor:
        """Return the batch `[B, n]` for these cases: their newest items, the newest last."""
        return torch.from_numpy(cases.histories(max_len))

    def probabilities(self, scores: Tensor) -> Tensor:
        """Turn scores into values from 0 to 1."""
        return scores.sigmoid()


class ModelConfig(Protocol):
    """What every model's configuration has."""

    @property
    def max_len(self) -> int:
        """The longest history the model reads."""

    @property
    def dropout(self) -> float:
        """The share of values dropped in training."""


class Recommender(nn.Module, CaseReader):
    """A model that can be trained: a configuration, a task and a loss."""

    config: ModelConfig
    task: Task = NextItem()
    """What the model is trained on."""
    drops: int = 1
    """How often `loss` calls dropout. A wrong number only costs time."""

    def fit_features(self, split: Split) -> None:
        """Store what the model reads of users and items beside their events, before training.

        Events may be used only if they are for training.
        """

    def init_from(self, trained: Mapping[str, Recommender]) -> None:
        """Copy initial weights from trained models, given by their names in the registry."""
        raise NotImplementedError

    def loss(self, batch: AnyBatch, drop: DropoutFunction) -> Tensor:
        """The mean over all questions of a batch that was drawn for the model's task.

        Seeds train together through `torch.vmap`, so no step may depend on a value or write into a
        tensor it was not given. Some rows may be filling; no statistic may count them.
        """
        raise NotImplementedError


def has_reasons(model: CaseReader) -> bool:
    """Return whether its parts can be reasons. The number of a user cannot."""
    return model.reads_history or offers(model, "part_names")


def require_reasons(model: CaseReader, who: str) -> None:
    """Raise `CapabilityError` if no part can be a reason."""
    if not has_reasons(model):
        raise CapabilityError(no_history(model, who))


def require_history(model: CaseReader, who: str) -> None:
    """Raise `CapabilityError` if the model reads no history."""
    if not model.reads_history:
        raise CapabilityError(no_history(model, who))


def no_history(model: CaseReader, who: str) -> str:
    """Return why the model has no items as reasons, and what to do."""
    named = offers(model, "part_names")
    parts = "predicts from groups of features" if named else "knows users by their numbers"
    return (
        f"{type(model).__name__} {parts} and reads no history, so {who} has no items to name. "
        f"Train a model that reads histories to get {'items as ' if named else ''}reasons."
    )
