"""Splits of the events into training, validation and test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from whence import former
from whence.arrays import Bools, Floats32, Ints
from whence.data.histories import Cases
from whence.data.interactions import UNKNOWN_TIME, Interactions, day
from whence.errors import InputError, did_you_mean

VALIDATION_SHARE = TEST_SHARE = 0.1
"""The share of events or users that `temporal` and `user_holdout` hold out for each."""
HeldOut = Literal["validation", "test"]


@dataclass(frozen=True, eq=False)
class Split:
    """Events for training, and cases to validate and test on.

    The training events of a user are those before `train_ends`.
    """

    interactions: Interactions
    train_ends: Ints
    protocol: str
    held: dict[HeldOut, Cases]
    """The cases for validation and test; their history is everything that came before."""
    weights: Floats32 | None = None
    """The weight of each event as a target of training; None weighs all equally."""

    def __post_init__(self) -> None:
        if self.weights is None:
            return
        good = np.isfinite(self.weights) & (self.weights >= 0)
        if self.weights.shape != (len(self.interactions),) or not good.all():
            raise InputError(
                "weights needs one finite number from 0 for each event, in the order of the events."
            )
        if not self.weights[self.trained()].any():
            raise InputError(
                "No training event has a weight above 0. Give some events a positive weight."
            )

    def trained(self) -> Bools:
        """Return which of all events are for training."""
        sizes = np.diff(self.interactions.offsets)
        return np.arange(len(self.interactions)) < np.repeat(self.train_ends, sizes)

    def item_counts(self) -> Ints:
        """Return the number of training events of each item."""
        items = self.interactions.items[self.trained()]
        return np.bincount(items, minlength=self.interactions.item_count)


def last_two(interactions: Interactions) -> Split:
    """Hold out the last event of each user for testing, and the one before for validation.

    All events of users with fewer than three are for training.
    """
    starts, ends = interactions.offsets[:-1], interactions.offsets[1:]
    evaluated = np.flatnonzero(ends - starts >= 3)
    train_ends = ends.copy()
    train_ends[evaluated] -= 2
    return Split(
        interactions,
        train_ends,
        protocol=f"last-two split by {_order(interactions)}",
        held={
            "validation": _cases(interactions, evaluated, ends[evaluated] - 2),
            "test": _cases(interactions, evaluated, ends[evaluated] - 1),
        },
    )


def last_one(interactions: Interactions) -> Split:
    """Hold out the last event of each user for testing, as He et al. (2017) do.

    There are no validation events. All events of users with fewer than two are for training.
    """
    starts, ends = interactions.offsets[:-1], interactions.offsets[1:]
    evaluated = np.flatnonzero(ends - starts >= 2)
    train_ends = ends.copy()
    train_ends[evaluated] -= 1
    nobody = evaluated[:0]
    return Split(
        interactions,
        train_ends,
        protocol=f"last-one split by {_order(interactions)}",
        held={
            "validation": _cases(interactions, nobody, ends[nobody]),
            "test": _cases(interactions, evaluated, ends[evaluated] - 1),
        },
    )


def temporal(interactions: Interactions) -> Split:
    """Train before one point in time, validate before a second one, and test after it.

    The points leave 10 % of the events each for validation and test. Events at the same time stay
    together. Each user has at most one case for each: the first event from that point, given all
    events before it. A user without earlier events has none.
    """
    times = interactions.times
    if times is None or (times == UNKNOWN_TIME).any():
        missing = len(interactions) if times is None else int((times == UNKNOWN_TIME).sum())
        raise InputError(
            f"A temporal split needs the time of every event, but {missing:,} events have none. "
            "Choose the split last-two."
        )
    shares = [1 - VALIDATION_SHARE - TEST_SHARE, 1 - TEST_SHARE]
    validation, test = np.quantile(times, shares, method="higher")
    if not times.min() < validation < test:
        raise InputError(
            "The events have too few distinct times for a temporal split. Choose last-two."
        )
    ends = [_first_at(interactions, point) for point in (validation, test)]
    return Split(
        interactions,
        train_ends=ends[0],
        protocol=f"temporal: trained before {day(validation)}, tested from {day(test)}",
        held={
            "validation": _cases_before(interactions, ends[0], ends[1]),
            "test": _cases_before(interactions, ends[1], interactions.offsets[1:]),
        },
    )


def user_holdout(interactions: Interactions, seed: int = 0) -> Split:
    """Hold out 10 % of the users for validation and 10 % for testing.

    The model sees no event of these users in training. Their last event is predicted from the
    others. Users with one event are for training.
    """
    starts, ends = interactions.offsets[:-1], interactions.offsets[1:]
    able = np.random.default_rng(seed).permutation(np.flatnonzero(ends - starts >= 2))
    for_each = int(len(able) * TEST_SHARE)
    if not for_each:
        raise InputError(
            f"A user-holdout split needs {round(1 / TEST_SHARE)} users with two events or more, "
            f"but the data have {len(able)}. Choose the split last-two."
        )
    groups = np.sort(able[:for_each]), np.sort(able[for_each : 2 * for_each])
    train_ends = ends.copy()
    for group in groups:
        train_ends[group] = starts[group]
    return Split(
        interactions,
        train_ends,
        protocol=f"user-holdout: {for_each:,} users each for validation and testing, seed {seed}",
        held={
            "validation": _cases(interactions, groups[0], ends[groups[0]] - 1),
            "test": _cases(interactions, groups[1], ends[groups[1]] - 1),
        },
    )


SPLITS: dict[str, Callable[[Interactions], Split]] = {
    "last-two": last_two,
    "last-one": last_one,
    "temporal": temporal,
    "user-holdout": user_holdout,
}


def split_by(name: str, interactions: Interactions) -> Split:
    """Return the interactions split by the split of this name."""
    if name in former.SPLITS:
        raise InputError(f"The split '{name}' is now called '{former.SPLITS[name]}'.")
    if name not in SPLITS:
        raise InputError(f"There is no split '{name}': {did_you_mean(name, SPLITS)}")
    return SPLITS[name](interactions)


def _cases(interactions: Interactions, users: Ints, at: Ints) -> Cases:
    """Return cases that predict the event `at` of each user from all events before it."""
    targets = interactions.items[at].astype(np.int64)
    return Cases(interactions.items, users, interactions.offsets[users], at, targets)


def _cases_before(interactions: Interactions, ends: Ints, limits: Ints) -> Cases:
    """Return cases for the events at `ends` that have a history and lie before the limit."""
    users = np.flatnonzero((interactions.offsets[:-1] < ends) & (ends < limits))
    return _cases(interactions, users, ends[users])


def _order(interactions: Interactions) -> str:
    """Return what orders the events of a user."""
    if interactions.times is None:
        return "row order"
    return "published order" if (interactions.times == UNKNOWN_TIME).any() else "time"


def _first_at(interactions: Interactions, point: int) -> Ints:
    """Return the first event of each user from this time on."""
    assert interactions.times is not None
    earlier = np.concatenate(([0], np.cumsum(interactions.times < point)))
    starts = interactions.offsets[:-1]
    return starts + earlier[interactions.offsets[1:]] - earlier[starts]
