"""The points of a study: held-out events, drawn the same for every model and seed."""

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
    """How many points are drawn, and options."""

    points: int = 1_000
    drawn: PointSampling = "by length"
    """Whether users are drawn in proportion to their events, or uniformly."""

    def __post_init__(self) -> None:
        require_choice("drawn", self.drawn, PointSampling)
        if self.points < 1:
            raise InputError(f"points must be at least 1, not {self.points}.")

    @property
    def words(self) -> str:
        """The sample in words, for a protocol."""
        by = (
            "users drawn in proportion to history length"
            if self.drawn == "by length"
            else "users drawn uniformly"
        )
        return f"{by}, with at least {FEWEST_ITEMS} items"


def draw_points(split: Split, held: HeldOut, options: PointSample) -> Cases:
    """Draw points with replacement, so that the probabilities are exact."""
    every = split.held[held]
    every = every[np.flatnonzero(every.ends - every.starts >= FEWEST_ITEMS)]
    if not len(every):
        raise InputError(f"No {held} event has a history of {FEWEST_ITEMS} items.")
    weight = np.ones(len(every))
    if options.drawn == "by length":
        weight = np.diff(split.interactions.offsets)[every.users].astype(np.float64)
    rng = Randomness(0).numpy("evaluation")
    return every[rng.choice(len(every), options.points, p=weight / weight.sum())]


def draw_full(split: Split, held: HeldOut, length: int, most: int) -> Cases:
    """Draw up to `most` events whose history fills `max_len`, without repetition."""
    every = split.held[held]
    every = every[np.flatnonzero(every.ends - every.starts >= length)]
    if not len(every):
        raise InputError(f"No {held} event has a history of {length} items.")
    order = Randomness(0).numpy("evaluation").permutation(len(every))
    return every[np.sort(order[:most])]
