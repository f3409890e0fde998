"""What interactions look like in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from whence.data.interactions import Interactions


def statistics(interactions: Interactions) -> dict[str, Any]:
    """Counts, medians, density, and how many steps in time are ties."""
    per_user = np.diff(interactions.offsets)
    per_item = np.bincount(interactions.items, minlength=interactions.item_count)
    cells = interactions.user_count * interactions.item_count
    return {
        "users": interactions.user_count,
        "items": interactions.item_count,
        "events": len(interactions),
        "median events per user": float(np.median(per_user)),
        "median events per item": float(np.median(per_item)),
        "density": len(interactions) / cells,
        "steps with equal times": _ties(interactions),
        "hash": interactions.content_hash,
    }


def _ties(interactions: Interactions) -> int | None:
    """Consecutive events of one user at the same time, whose order is only the file's."""
    if interactions.times is None:
        return None
    equal = np.diff(interactions.times) == 0
    equal[interactions.offsets[1:-1] - 1] = False
    return int(equal.sum())
