"""The points that a study asks about: held-out events, drawn the same for every model and seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from whence.config import require_choice
from whence.data.histories import Cases
from whence.data.splits import HeldOut, Split
from whence.errors import InputError
from whence.randomness import Randomness

PointSampling = Literal["by length", "uniformly"]
FEWEST_ITEMS = 2
"""A history of one item has no ranking."""


@dataclass(frozen=True)
class PointSample:
    """How many points, and how users come to be asked."""

    points: int = 1_000
    drawn: PointSampling = "by length"
    """A user is drawn as often as there are events of theirs, or as often as every other."""

    def __post_init__(self) -> None:
        require_choice("drawn", self.drawn, PointSampling)
        if self.points < 1:
            raise InputError(f"A study asks about at least 1 point, not {self.points}.")

    @property
    def words(self) -> str:
        """For a protocol."""
        by = (
            "users drawn in proportion to history length"
            if self.drawn == "by length"
            else "users drawn uniformly"
        )
        return f"{by}, with at least {FEWEST_ITEMS} items"


def draw_points(split: Split, held: HeldOut, how: PointSample) -> Cases:
    """With replacement, so that chances are exactly as said."""
    every = split.held[held]
    every = every[np.flatnonzero(every.ends - every.starts >= FEWEST_ITEMS)]
    if not len(every):
        raise InputError(f"No {held} event has a history of {FEWEST_ITEMS} items to ask about.")
    weight = np.ones(len(every))
    if how.drawn == "by length":
        weight = np.diff(split.interactions.offsets)[every.users].astype(np.float64)
    rng = Randomness(0).numpy("evaluation")
    return every[rng.choice(len(every), how.points, p=weight / weight.sum())]


def draw_full(split: Split, held: HeldOut, length: int, most: int) -> Cases:
    """At most so many whose history fills the model's length, each once."""
    every = split.held[held]
    every = every[np.flatnonzero(every.ends - every.starts >= length)]
    if not len(every):
        raise InputError(f"No {held} event has a history of {length} items to ask about.")
    order = Randomness(0).numpy("evaluation").permutation(len(every))
    return every[np.sort(order[:most])]
