"""Filters: by rating, by repetition, and by how often users and items occur."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from whence.arrays import Bools
from whence.data.interactions import Interactions
from whence.errors import InputError

REPEATS = ("all", "first", "last")


@dataclass(frozen=True)
class Preparation:
    """Filters, applied in the order of the fields. By default nothing is dropped."""

    min_rating: float | None = None
    """Drop events with a lower rating. None keeps every rating as a sign of interest."""
    repeats: str = "all"
    """Which of a user's events with the same item to keep: all, the first or the last."""
    min_user_events: int = 1
    """Drop users with fewer events."""
    min_item_events: int = 1
    """Drop items with fewer events."""
    k_core: bool = False
    """Repeat both minimums until all users and items reach them.

    By default events are counted once, before any is dropped, as in the published files of SASRec.
    There, some users end up below the minimum.
    """

    def __post_init__(self) -> None:
        if self.repeats not in REPEATS:
            raise InputError(f"repeats is one of {', '.join(REPEATS)}, not '{self.repeats}'.")
        if self.min_rating is not None and not math.isfinite(self.min_rating):
            raise InputError(f"min_rating is a number, not {self.min_rating}.")
        if self.min_user_events < 1 or self.min_item_events < 1:
            raise InputError("min_user_events and min_item_events are whole numbers from 1.")


def prepare(events: Interactions, preparation: Preparation) -> Interactions:
    """Return the events that pass the filters; `filters` counts those that were dropped."""
    before = events
    if preparation.min_rating is not None:
        if events.ratings is None:
            raise InputError(
                "The data have no ratings to compare with min_rating. Name the rating column "
                "(--rating), or omit min_rating."
            )
        events = events.select(
            events.ratings >= preparation.min_rating,
            f"events rated below {preparation.min_rating:g}",
        )
    if preparation.repeats != "all":
        events = events.select(
            _one_per_pair(events, preparation.repeats),
            f"repeated events of a user with an item, except the {preparation.repeats}",
        )
    if preparation.min_user_events > 1 or preparation.min_item_events > 1:
        events = events.select(_frequent(events, preparation), _minimums_in_words(preparation))
    if preparation == Preparation():
        return events
    steps = [*before.origin.get("preparation", []), _changed_fields(preparation)]
    return replace(events, origin={**before.origin, "preparation": steps})


def _one_per_pair(events: Interactions, which: str) -> Bools:
    """Return the first or last event of each user with each item."""
    pair = events.pairs()
    if which == "last":
        pair = pair[::-1]
    kept = np.zeros(len(pair), dtype=bool)
    kept[np.unique(pair, return_index=True)[1]] = True
    return kept[::-1] if which == "last" else kept


def _frequent(events: Interactions, preparation: Preparation) -> Bools:
    """Return the events whose user and item both reach their minimum."""
    users, items = events.user_of_event(), events.items
    kept = np.ones(len(items), dtype=bool)
    while True:
        per_user = np.bincount(users[kept], minlength=events.user_count)
        per_item = np.bincount(items[kept], minlength=events.item_count)
        still = kept & (per_user[users] >= preparation.min_user_events)
        still &= per_item[items] >= preparation.min_item_events
        if not preparation.k_core or still.sum() == kept.sum():
            return still
        kept = still


def _minimums_in_words(preparation: Preparation) -> str:
    minimums = {"users": preparation.min_user_events, "items": preparation.min_item_events}
    few = [
        f"{kind} with fewer than {least} events" for kind, least in minimums.items() if least > 1
    ]
    return f"{' and '.join(few)}, counted {'repeatedly' if preparation.k_core else 'once'}"


def _changed_fields(preparation: Preparation) -> dict[str, Any]:
    default = asdict(Preparation())
    return {name: value for name, value in asdict(preparation).items() if value != default[name]}
