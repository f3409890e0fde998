"""Statistics of interactions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from whence.data.interactions import UNKNOWN_TIME, Interactions


def statistics(interactions: Interactions) -> dict[str, Any]:
    """Return counts, medians, density and ties in time; None means unknown."""
    per_user = np.diff(interactions.offsets)
    per_item = np.bincount(interactions.items, minlength=interactions.item_count)
    cells = interactions.user_count * interactions.item_count
    ties, steps = _ties(interactions)
    first, last = interactions.span()
    return {
        "users": interactions.user_count,
        "items": interactions.item_count,
        "events": len(interactions),
        "median events per user": float(np.median(per_user)),
        "median events per item": float(np.median(per_item)),
        "users with fewer than 3 events": int((per_user < 3).sum()),
        "density": len(interactions) / cells,
        "events that repeat a user-item pair": _repeats(interactions),
        "steps with equal times": ties,
        "steps with known times": steps,
        "first": first,
        "last": last,
        "mean rating": None if interactions.ratings is None else float(interactions.ratings.mean()),
        "items with a title": _titles(interactions.catalog.table),
        "item features": _features(interactions.catalog.table),
        "user features": _features(interactions.users),
        "dropped": {one["what"]: one["dropped"] for one in interactions.filters},
        "hash": interactions.content_hash,
    }


def _ties(interactions: Interactions) -> tuple[int | None, int | None]:
    """Return how many steps of a user have equal times, and how many have known times.

    Events with equal times are in the order of the file.
    """
    if interactions.times is None:
        return None, None
    known = interactions.times != UNKNOWN_TIME
    inside = known[1:] & known[:-1]
    inside[interactions.offsets[1:-1] - 1] = False
    return int((inside & (np.diff(interactions.times) == 0)).sum()), int(inside.sum())


def _repeats(interactions: Interactions) -> int:
    """Return how many events repeat an earlier item of the same user."""
    return int((np.diff(np.sort(interactions.pairs())) == 0).sum())


def _features(table: pa.Table) -> list[str]:
    """Return all columns but the id."""
    return list(table.column_names[1:])


def _titles(table: pa.Table) -> int | None:
    if "title" not in table.column_names:
        return None
    return len(table) - int(table["title"].null_count)
