"""What a model may learn from, and what it is asked afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from whence.data.histories import Cases
from whence.data.interactions import Interactions

Held = Literal["validation", "test"]


@dataclass(frozen=True, eq=False)
class Split:
    """Each user's events from the offset up to `train_ends` are for training."""

    interactions: Interactions
    train_ends: npt.NDArray[np.int64]
    protocol: str
    held: dict[Held, Cases]
    """The cases of each held-out part; their history is all that came before."""

    def trained(self) -> npt.NDArray[np.bool_]:
        """Bool over all events: which are for training."""
        sizes = np.diff(self.interactions.offsets)
        return np.arange(len(self.interactions)) < np.repeat(self.train_ends, sizes)


def leave_one_out(interactions: Interactions) -> Split:
    """The last event of each user for testing, the one before it for validation.

    Users with fewer than three events go wholly into training.
    """
    starts, ends = interactions.offsets[:-1], interactions.offsets[1:]
    evaluated = np.flatnonzero(ends - starts >= 3)

    def held_back(places: int) -> Cases:
        cut = ends[evaluated] - places
        targets = interactions.items[cut].astype(np.int64)
        return Cases(interactions.items, evaluated, starts[evaluated], cut, targets)

    train_ends = ends.copy()
    train_ends[evaluated] -= 2
    return Split(
        interactions,
        train_ends,
        protocol="leave-one-out by " + ("row order" if interactions.times is None else "time"),
        held={"validation": held_back(2), "test": held_back(1)},
    )
