"""What a model may learn from, and what it is asked afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from whence.data.histories import Cases
from whence.data.interactions import UNKNOWN_TIME, Interactions, day
from whence.errors import InputError, did_you_mean

VALIDATION_SHARE = TEST_SHARE = 0.1
"""Of the events, or of the users, that the splits by share hold out for each."""
HeldOut = Literal["validation", "test"]


@dataclass(frozen=True, eq=False)
class Split:
    """Each user's events from the offset up to `train_ends` are for training."""

    interactions: Interactions
    train_ends: npt.NDArray[np.int64]
    protocol: str
    held: dict[HeldOut, Cases]
    """The cases of each held-out part; their history is all that came before."""
    weights: npt.NDArray[np.float32] | None = None
    """How much each event counts, as something to foretell; without them all count alike."""

    def __post_init__(self) -> None:
        if self.weights is None:
            return
        good = np.isfinite(self.weights) & (self.weights >= 0)
        if self.weights.shape != (len(self.interactions),) or not good.all():
            raise InputError("Weights are one number for each event, from 0 on.")
        if not self.weights[self.trained()].any():
            raise InputError(
                "No event for training has a weight above 0; there is nothing to learn."
            )

    def trained(self) -> npt.NDArray[np.bool_]:
        """Bool over all events: which are for training."""
        sizes = np.diff(self.interactions.offsets)
        return np.arange(len(self.interactions)) < np.repeat(self.train_ends, sizes)

    def item_counts(self) -> npt.NDArray[np.int64]:
        """How many events for training each item has."""
        items = self.interactions.items[self.trained()]
        return np.bincount(items, minlength=self.interactions.item_count)


def last_two(interactions: Interactions) -> Split:
    """The last event of each user for testing, the one before it for validation.

    Users with fewer than three events go wholly into training.
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
    """The last event of each user for testing, as He et al. (2017) do, and none for validation.

    Users with fewer than two events go wholly into training.
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
    """Training before one point in time for all, validation before another, testing from there on.

    The points leave 10 % of the events for each; events at the same time are not divided. Each user
    is asked once for each: for the first event from the point on, given all that came before. Users
    who begin later are not asked.
    """
    times = interactions.times
    if times is None or (times == UNKNOWN_TIME).any():
        missing = len(interactions) if times is None else int((times == UNKNOWN_TIME).sum())
        raise InputError(
            f"A temporal split needs the time of every event, and {missing:,} have none; choose "
            "last-two instead."
        )
    shares = [1 - VALIDATION_SHARE - TEST_SHARE, 1 - TEST_SHARE]
    validation, test = np.quantile(times, shares, method="higher")
    if not times.min() < validation < test:
        raise InputError(
            "The events lie at too few points in time for a temporal split; choose last-two."
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
    """10 % of the users for validation, 10 % for testing, the others for training.

    The held-out users are new to the model: of each, the last event is asked for, given the others.
    Users of one event go into training.
    """
    starts, ends = interactions.offsets[:-1], interactions.offsets[1:]
    able = np.random.default_rng(seed).permutation(np.flatnonzero(ends - starts >= 2))
    for_each = int(len(able) * TEST_SHARE)
    if not for_each:
        raise InputError(
            f"A user-holdout split needs at least {round(1 / TEST_SHARE)} users of two events, and "
            f"these data have {len(able)}."
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
    """The split of this name."""
    if name not in SPLITS:
        raise InputError(f"No split is '{name}': {did_you_mean(name, SPLITS)}")
    return SPLITS[name](interactions)


def _cases(
    interactions: Interactions, users: npt.NDArray[np.int64], at: npt.NDArray[np.int64]
) -> Cases:
    """To predict the events `at`, one of each of these users, from all before them."""
    targets = interactions.items[at].astype(np.int64)
    return Cases(interactions.items, users, interactions.offsets[users], at, targets)


def _cases_before(
    interactions: Interactions, ends: npt.NDArray[np.int64], limits: npt.NDArray[np.int64]
) -> Cases:
    """To predict the event at each user's end, where it has a history and lies before the limit."""
    users = np.flatnonzero((interactions.offsets[:-1] < ends) & (ends < limits))
    return _cases(interactions, users, ends[users])


def _order(interactions: Interactions) -> str:
    """What the events are in the order of."""
    if interactions.times is None:
        return "row order"
    return "published order" if (interactions.times == UNKNOWN_TIME).any() else "time"


def _first_at(interactions: Interactions, point: int) -> npt.NDArray[np.int64]:
    """Each user's first event from this time on."""
    assert interactions.times is not None
    earlier = np.concatenate(([0], np.cumsum(interactions.times < point)))
    starts = interactions.offsets[:-1]
    return starts + earlier[interactions.offsets[1:]] - earlier[starts]
