"""Which events count: by rating, by repetition, by how often their user and item appear."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from whence.data.interactions import Interactions
from whence.errors import InputError

REPEATS = ("keep", "first", "last")
Kept = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Preparation:
    """What to leave out, in this order; by default nothing."""

    min_rating: float | None = None
    """Events rated lower are left out; None takes every rating as interest."""
    repeats: str = "keep"
    """Of a user's events with one item: keep all, or the first or the last alone."""
    min_user_events: int = 1
    """The fewest events of a user."""
    min_item_events: int = 1
    """The fewest events of an item."""
    core: bool = False
    """Repeat the count filters until both hold (the k-core), instead of counting once before both.

    Counting once is what SASRec's published files did: their users can end up below the minimum.
    """

    def __post_init__(self) -> None:
        if self.repeats not in REPEATS:
            raise InputError(f"Repeats are one of {', '.join(REPEATS)}, not '{self.repeats}'.")
        if self.min_rating is not None and not math.isfinite(self.min_rating):
            raise InputError(f"The least rating is a number, not {self.min_rating}.")
        if self.min_user_events < 1 or self.min_item_events < 1:
            raise InputError("The fewest events of a user and of an item are numbers from 1 on.")


def prepare(events: Interactions, how: Preparation) -> Interactions:
    """The events that are left; what went is counted in `filters`."""
    before = events
    if how.min_rating is not None:
        if events.ratings is None:
            raise InputError(
                "These data have no ratings to leave events out by; name their column, or do "
                "without the least rating."
            )
        events = events.select(
            events.ratings >= how.min_rating, f"events rated below {how.min_rating:g}"
        )
    if how.repeats != "keep":
        events = events.select(_one_of_each(events, how.repeats), _repeats_in_words(how.repeats))
    if how.min_user_events > 1 or how.min_item_events > 1:
        events = events.select(_frequent(events, how), _counts_in_words(how))
    if how == Preparation():
        return events
    steps = [*before.origin.get("preparation", []), _said(how)]
    return replace(events, origin={**before.origin, "preparation": steps})


def _one_of_each(events: Interactions, which: str) -> Kept:
    """The first or last event of each user with each item."""
    pair = events.pairs()
    if which == "last":
        pair = pair[::-1]
    kept = np.zeros(len(pair), dtype=bool)
    kept[np.unique(pair, return_index=True)[1]] = True
    return kept[::-1] if which == "last" else kept


def _frequent(events: Interactions, how: Preparation) -> Kept:
    """Events whose user and item both appear often enough."""
    users, items = events.user_of_event(), events.items
    kept = np.ones(len(items), dtype=bool)
    while True:
        per_user = np.bincount(users[kept], minlength=events.user_count)
        per_item = np.bincount(items[kept], minlength=events.item_count)
        still = (
            kept
            & (per_user[users] >= how.min_user_events)
            & (per_item[items] >= how.min_item_events)
        )
        if not how.core or still.sum() == kept.sum():
            return still
        kept = still


def _repeats_in_words(which: str) -> str:
    return f"repeated events of a user with an item, but for the {which}"


def _counts_in_words(how: Preparation) -> str:
    few = [
        f"{kind} of fewer than {least} events"
        for kind, least in (("users", how.min_user_events), ("items", how.min_item_events))
        if least > 1
    ]
    return f"{' and '.join(few)}, {'until none is left' if how.core else 'counted once'}"


def _said(how: Preparation) -> dict[str, Any]:
    return {
        name: value for name, value in asdict(how).items() if value != getattr(Preparation(), name)
    }
