"""Curves: how far recommendations have moved after each part that is taken or put back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from whence.errors import InputError
from whence.explanation import Floats
from whence.measure import Measure, mean_measure
from whence.trust.divergences import find_divergence

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Kind = Literal["deletion", "insertion"]

SHARES: Final = tuple(tenth / 10 for tenth in range(11))


@dataclass(frozen=True, eq=False)
class Curves:
    """How far the distribution over all items has moved after each step, of `B` cases.

    A case has as many steps as parts; after them its values are NaN. `n` is the most there are.
    """

    values: Floats
    """`[B, n + 1]`: the divergence from the whole case, by how many parts were taken or put back.

    A deletion curve begins at 0 and an insertion curve ends there.
    """
    counts: Ints
    """`[B]`: how many parts each case has."""
    kind: Kind
    divergence: str
    order: str
    """The explainer whose most important parts came first; `random order`; `greedy oracle`."""
    removal: str = "not said"
    """How a part is taken away."""
    changed: Mapping[int, Bools] = field(default_factory=dict)
    """For lists of 1 and 10 items, `[B, n + 1]`: whether other items are in it than of the whole
    case. False where there is no step."""

    def mean(self) -> Floats:
        """`[n + 1]`: after each step, over the cases that have it."""
        mean: Floats = np.nanmean(self.values, axis=0)
        return mean

    def area(self) -> Floats:
        """`[B]`: the mean height over the share of parts from 0 to 1; NaN without a part."""
        with np.errstate(invalid="ignore"):
            area: Floats = (np.nansum(self.values, axis=1) - self._chord()) / self.counts
        return area

    def shape(self) -> Floats:
        """`[B]`: the mean of (chord − curve) over the divergence of the empty case.

        Above 0 for a convex curve, below 0 for a concave one; NaN for fewer than two parts.
        """
        rise = np.abs(self._last() - self.values[:, 0])
        bends = (self.counts > 1) & (rise > 0)
        shape: Floats = np.full(len(rise), np.nan)
        np.divide(self._chord() - self.area(), rise, out=shape, where=bends)
        return shape

    def area_measure(self) -> Measure:
        """The mean area, which a good order makes large by deletion and small by insertion."""
        most = find_divergence(self.divergence).most
        return mean_measure(
            _counted(self.area()),
            f"mean over cases of the area under the {self.described()}",
            "higher is better" if self.kind == "deletion" else "lower is better",
            (0.0, most),
        )

    def shape_measure(self) -> Measure:
        """The mean shape. No curve lies below 0, so that no shape exceeds ½."""
        return mean_measure(
            _counted(self.shape()),
            f"mean over cases of (chord − curve) / height of the {self.described()}",
            "neither",
            (-math.inf, 0.5),
        )

    def described(self) -> str:
        """For the protocol of a measure."""
        return (
            f"{self.kind} curve of the {self.divergence} in nats, parts by {self.order}, "
            f"removal {self.removal}"
        )

    def _last(self) -> Floats:
        last: Floats = np.take_along_axis(self.values, self.counts[:, None], axis=1)[:, 0]
        return last

    def _chord(self) -> Floats:
        """`[B]`: the mean height of the straight line between both ends."""
        chord: Floats = (self.values[:, 0] + self._last()) / 2
        return chord


def deletion_at(curves: Curves, shares: Iterable[float] = SHARES) -> Floats:
    """The mean heights where those shares of a case's parts are taken, to the nearest part.

    For drawing cases of different lengths; those without a part are left out.
    """
    asked: Floats = np.array(list(shares), dtype=np.float64)
    if not ((asked >= 0) & (asked <= 1)).all():
        raise InputError(f"Shares of the parts are from 0 to 1, not {asked.tolist()}.")
    some = curves.counts > 0
    step = np.floor(curves.counts[some, None] * asked + 0.5).astype(np.int64)
    heights: Floats = np.take_along_axis(curves.values[some], step, axis=1).mean(axis=0)
    return heights


def normalised_area(curves: Curves, random: Curves, oracle: Curves) -> Measure:
    """(mean area − random's) / (oracle's − random's): 0 is no better than chance, 1 is greedy.

    The greedy oracle is not always the best order, nor is chance the worst: it may lie outside.
    """
    area, chance, best = (one.area() for one in (curves, random, oracle))
    gain, room = area - chance, best - chance
    counted = ~np.isnan(room)
    gain, room = gain[counted], room[counted]
    if not len(room) or room.mean() <= 0:
        raise InputError("The greedy oracle is no better than chance: nothing lies between them.")
    ratio = gain.mean() / room.mean()
    # Linearised, so that the interval knows that numerator and denominator vary together.
    return mean_measure(
        ratio + (gain - ratio * room) / room.mean(),
        f"mean area between random order (0) and the greedy oracle (1) under the "
        f"{curves.described()}",
        "higher is better",
        (-math.inf, math.inf),
    )


def _counted(values: Floats) -> Floats:
    """Those of cases that have a value."""
    known: Floats = values[~np.isnan(values)]
    if not len(known):
        raise InputError("No case has parts enough for a curve.")
    return known
