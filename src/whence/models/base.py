"""The base classes of recommenders: what reads cases, and what can also be trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from whence.contract import PAD, Explainable, offers
from whence.data.histories import Cases
from whence.data.splits import Split
from whence.errors import CapabilityError, InputError
from whence.models.tasks import AnyBatch, NextItem, Task
from whence.randomness import DropoutFunction


class CaseReader(Explainable):
    """A model that reads cases, which are users with their histories, and scores all items."""

    reads_history = True
    """Whether its parts are the items of a history.

    Otherwise they are groups of features, which `part_names` names, or the number of a user.
    """
    predicts_probabilities: bool = True
    """Whether a score is a logit. Otherwise it is a rating."""

    @property
    def kind(self) -> str:
        """What messages call it."""
        return type(self).__name__

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
        """The share of values that training sets to 0."""


@dataclass(frozen=True)
class ChoiceConfig:
    """Settings of the models trained on `Choices`; the defaults are those of He et al. (2017)."""

    max_len: int = 50
    """How many of a user's newest items the model reads, or a recommendation shows."""
    dim: int = 8
    """The size of the vector of an item or a user."""
    n_negatives: int = 4
    """Unseen items per event that training uses as negatives."""
    init_std: float = 0.01
    """The standard deviation of new vectors."""

    def __post_init__(self) -> None:
        if min(self.max_len, self.dim) < 1:
            raise InputError("max_len and dim must be at least 1.")
        if self.n_negatives < self.fewest_negatives:
            raise InputError(
                f"n_negatives must be at least {self.fewest_negatives}, not {self.n_negatives}."
            )
        if not self.init_std > 0:
            raise InputError(f"init_std must be a number above 0, not {self.init_std}.")

    @property
    def fewest_negatives(self) -> int:
        """The least value of `n_negatives`; without negatives, a model would like every item."""
        return 1

    @property
    def dropout(self) -> float:
        """These models have no dropout."""
        return 0.0


class Recommender(nn.Module, CaseReader):
    """A model that can be trained: a configuration, a task and a loss."""

    config: ModelConfig
    task: Task = NextItem()
    """What the model is trained on."""
    drops: int = 1
    """How often `loss` calls dropout. A wrong number only costs time."""

    def fit_features(self, split: Split) -> None:
        """Store the features of users and items that the model reads, before training.

        Events may be used only if they are for training.
        """

    def fit_closed(self, split: Split) -> None:
        """Compute the weights from the training events, without steps.

        A configuration that says how many there are is replaced.
        """
        raise NotImplementedError

    def init_from(self, trained: Mapping[str, Recommender]) -> None:
        """Copy initial weights from trained models, given by their names in the registry."""
        raise NotImplementedError

    def loss(self, batch: AnyBatch, drop: DropoutFunction) -> Tensor:
        """The mean over all questions of a batch that was drawn for the model's task.

        Seeds train together through `torch.vmap`, so no step may depend on a value or write into a
        tensor it was not given. Some rows may be padding; no statistic may count them.
        """
        raise NotImplementedError

    def require_length(self, batch: Tensor) -> None:
        """Raise `InputError` if the histories of a batch have more than `max_len` items."""
        if batch.shape[1] > self.config.max_len:
            raise InputError(
                f"This {self.kind} reads at most {self.config.max_len} items, not "
                f"{batch.shape[1]}. Pass only the newest items, or train with a larger max_len."
            )


class OwnReason(NamedTuple):
    """What a model says for itself: its rule in words."""

    sentence: str
    """With `{verb}` for what users do, and `{item}` for the item that it names."""
    item: int | None = None


@runtime_checkable
class HasOwnReasons(Protocol):
    """Offered by models whose rule is the reason, whichever items are left out."""

    def own_reasons(self, batch: Tensor, targets: Tensor) -> list[OwnReason]:
        """Return the reason of each case's one target `[B]`."""
        ...


def require_users(model: CaseReader, cases: Cases) -> None:
    """Raise `InputError` if a case is a new history, for a model that knows users only by id."""
    if len(cases) and cases.users.min() == PAD:
        raise InputError(
            f"{model.kind} knows users only by id and reads no history. Ask for a "
            "user of the data, or train a model that reads histories."
        )


def refuse_removal_from_attention(
    present: Tensor | None, attention: Sequence[Tensor | None] | None
) -> None:
    """Raise `InputError` if `score` is asked to do both."""
    if present is not None and attention is not None:
        raise InputError(
            "Parts cannot be removed from given attention weights. Pass present or attention, not "
            "both."
        )


def padding_columns(batch: Tensor) -> int:
    """Return how many of the first columns hold no item of any case; never all of them."""
    used = (batch != PAD).any(dim=0)
    used[-1:] = True
    return int(used.int().argmax()) if len(used) else 0


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
    parts = "predicts from groups of features" if named else "knows users only by id"
    return (
        f"{model.kind} {parts} and reads no history, so {who} has no items to name. "
        f"Train a model that reads histories to get {'items as ' if named else ''}reasons."
    )
