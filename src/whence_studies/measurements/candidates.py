"""The questions of class studies: the target of each user and its published negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Bools, Floats, Ints
from whence.capabilities import require
from whence.contract import HasClasses
from whence.data.histories import Cases
from whence.data.published_negatives import NEGATIVES, published_negatives
from whence.data.splits import HeldOut, Split
from whence.devices import device_of
from whence.errors import InputError
from whence.models import Recommender
from whence.models.tasks import NOTHING
from whence.randomness import Randomness
from whence.training.negatives import Unseen
from whence.trust.accuracy.class_accuracy import ratings_of, true_class_of_next
from whence_studies.measurements.measurement import SeedColumn


@dataclass(frozen=True)
class UserSample:
    """How many users are drawn, uniformly."""

    users: int = 1_000

    def __post_init__(self) -> None:
        if self.users < 2:
            raise InputError(f"users must be at least 2, not {self.users}.")


@dataclass(frozen=True, eq=False)
class CandidateQuestions:
    """One case per user, with the items to score."""

    cases: Cases
    items: Ints
    """`[B, 100]`: the target, then its negatives."""
    asked: Bools
    """`[B, 100]`: which of them count; a target among its own negatives does not count there."""
    ratings: Floats | None
    """`[B]`: ratings of the targets, if known."""
    held: HeldOut
    split: str

    @property
    def protocol(self) -> str:
        """The questions in words."""
        return (
            f"the target and {self.items.shape[1] - 1} published negatives of "
            f"{len(self.cases):,} users, {self.held} events, {self.split}"
        )

    def of(self, model: Recommender) -> tuple[Tensor, Tensor, Tensor]:
        """Return the model's input, the items and their true classes, on the model's device."""
        device = device_of(model)
        batch = model.read(self.cases, model.config.max_len).to(device)
        items = torch.from_numpy(self.items).to(device)
        require(model, ("classes",), who="a study of classes")
        assert isinstance(model, HasClasses)
        classes = model.classes(batch[:1], items[:1, :1]).shape[2]
        true = np.full_like(self.items, NOTHING)
        true[:, 0] = true_class_of_next(model, self.ratings, len(true), classes)
        return batch, items, torch.from_numpy(true).to(device)


def draw_cases(split: Split, held: HeldOut, most: int) -> Cases:
    """Draw up to `most` held-out events without repetition, the same for every model and seed."""
    every = split.held[held]
    order = Randomness(0).numpy("evaluation").permutation(len(every))
    return every[np.sort(order[:most])]


def draw_questions(split: Split, held: HeldOut, options: UserSample) -> CandidateQuestions:
    """Draw the questions of up to `options.users` users.

    A few published negatives equal their target; these do not count.
    """
    cases = draw_cases(split, held, options.users)
    negatives = published_negatives(split.interactions).of(cases)
    return _questions(split, held, cases, negatives, negatives != cases.targets[:, None])


def validation_questions(split: Split, options: UserSample) -> CandidateQuestions:
    """Draw questions about validation events, with as many random negatives.

    The published negatives belong to test events. These are drawn from all items outside the user's
    training events, since later events are unknown.
    """
    cases = draw_cases(split, "validation", options.users)
    users, generator = torch.from_numpy(cases.users).long(), Randomness(0).torch("evaluation")
    negatives = Unseen.of(split).draw(users, NEGATIVES, generator).numpy()
    return _questions(split, "validation", cases, negatives, negatives != cases.targets[:, None])


def _questions(
    split: Split, held: HeldOut, cases: Cases, negatives: Ints, valid: Bools
) -> CandidateQuestions:
    """Return the questions; `valid` `[B, 99]` says which negatives count."""
    return CandidateQuestions(
        cases,
        np.concatenate((cases.targets[:, None], negatives), axis=1),
        np.concatenate((np.ones_like(valid[:, :1]), valid), axis=1),
        ratings_of(split, cases),
        held,
        split.protocol,
    )


ColumnValues = Mapping[str, tuple[float, int]]
"""By column: its value, and the number of cases."""


def over_models(found: Sequence[ColumnValues], protocol: str) -> dict[str, SeedColumn]:
    """Return one value per seed in every column that all seeds have; bins may be empty."""
    return {
        column: SeedColumn(
            per_seed=tuple(one[column][0] for one in found),
            n=min(one[column][1] for one in found),
            protocol=protocol,
            direction="neither",
        )
        for column in found[0]
        if all(column in one and np.isfinite(one[column][0]) for one in found)
    }
