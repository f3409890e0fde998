"""Deletion and insertion curves: how much recommendations change with each part.

The change is a divergence between two distributions over all items, in nats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import numpy as np
from torch import Tensor

from whence.arrays import Bools, Floats, Ints
from whence.errors import InputError, did_you_mean
from whence.measure import Measure, mean_measure

FAR: Final = 40.0
"""If the logarithms of two probabilities differ by this, the smaller one is as good as 0."""


class Divergence(NamedTuple):
    """A function from two log-probabilities `[…, items]` to `[…]`, and its largest value."""

    between: Callable[[Tensor, Tensor], Tensor]
    most: float


def symmetrised_kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return (KL(P‖Q) + KL(Q‖P)) / 2 = Σ (p − q)(log p − log q) / 2.

    Baumhauer (2021) calls it JS, but it is half of Jeffreys' divergence and has no upper bound. In
    this form no term is negative, so small ones are not lost in rounding.
    """
    difference = log_p.exp() - log_q.exp()
    terms = difference * (log_p - log_q)
    return terms.masked_fill_(difference == 0, 0).sum(dim=-1).double() / 2


def jensen_shannon(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return (KL(P‖M) + KL(Q‖M)) / 2 with M = (P + Q) / 2; at most ln 2.

    With a = |log p − log q|, an item contributes (p + q)/4 · (a·tanh(a/2) − 2·log cosh(a/2)), which
    is never negative. log cosh(x) is computed as log(1 + 2·sinh²(x/2)), which is exact for small a.
    """
    total = log_p.exp() + log_q.exp()
    apart = (log_p - log_q).abs_().clamp_(max=FAR)
    cosh = (apart / 4).sinh_().square_().mul_(2).log1p_()
    terms = total * (apart * (apart / 2).tanh_() - 2 * cosh)
    return (terms.masked_fill_(total == 0, 0).sum(dim=-1).double() / 4).clamp(max=math.log(2))


DIVERGENCES: dict[str, Divergence] = {
    "symmetrised KL": Divergence(symmetrised_kl, math.inf),
    "Jensen-Shannon": Divergence(jensen_shannon, math.log(2)),
}


def find_divergence(name: str) -> Divergence:
    """Return the divergence with this name."""
    if name not in DIVERGENCES:
        raise InputError(f"There is no divergence '{name}': {did_you_mean(name, DIVERGENCES)}")
    return DIVERGENCES[name]


CurveKind = Literal["deletion", "insertion"]

SHARES: Final = tuple(tenth / 10 for tenth in range(11))


@dataclass(frozen=True, eq=False)
class Curves:
    """How much the distribution over all items has changed after each step, for `B` cases.

    A case has as many steps as parts; later values are NaN. `n` is the largest number of parts.
    """

    values: Floats
    """`[B, n + 1]`: the divergence from the full case, by the number of parts deleted or inserted.

    A deletion curve starts at 0; an insertion curve ends at 0.
    """
    counts: Ints
    """`[B]`: the number of parts of each case."""
    kind: CurveKind
    divergence: str
    order: str
    """The explainer whose most important parts came first; `random order`; `greedy oracle`."""
    removal: str = "not said"
    """How a part is removed."""
    changed: Mapping[int, Bools] = field(default_factory=dict)
    """For lists of 1 and 10 items, `[B, n + 1]`: whether the list differs from the full case's.

    False if there is no such step.
    """

    def mean(self) -> Floats:
        """Return the mean after each step `[n + 1]`, over the cases that have it."""
        mean: Floats = np.nanmean(self.values, axis=0)
        return mean

    def area(self) -> Floats:
        """Return the area under each curve over the share of parts `[B]`; NaN without parts."""
        with np.errstate(invalid="ignore"):
            area: Floats = (np.nansum(self.values, axis=1) - self._chord()) / self.counts
        return area

    def shape(self) -> Floats:
        """Return the mean of (chord − curve) relative to the divergence of the empty case `[B]`.

        Positive for a convex curve, negative for a concave one; NaN for fewer than two parts.
        """
        rise = np.abs(self._last() - self.values[:, 0])
        bends = (self.counts > 1) & (rise > 0)
        shape: Floats = np.full(len(rise), np.nan)
        np.divide(self._chord() - self.area(), rise, out=shape, where=bends)
        return shape

    def area_measure(self) -> Measure:
        """Return the mean area; a good order makes it large by deletion, small by insertion."""
        most = find_divergence(self.divergence).most
        return mean_measure(
            _counted(self.area()),
            f"mean over cases of the area under the {self.described()}",
            "higher is better" if self.kind == "deletion" else "lower is better",
            (0.0, most),
        )

    def shape_measure(self) -> Measure:
        """Return the mean shape, at most ½ because no curve is negative."""
        return mean_measure(
            _counted(self.shape()),
            f"mean over cases of (chord − curve) / height of the {self.described()}",
            "neither",
            (-math.inf, 0.5),
        )

    def described(self) -> str:
        """Return a description for the protocol of a measure."""
        return (
            f"{self.kind} curve of the {self.divergence} in nats, parts by {self.order}, "
            f"removal {self.removal}"
        )

    def _last(self) -> Floats:
        last: Floats = np.take_along_axis(self.values, self.counts[:, None], axis=1)[:, 0]
        return last

    def _chord(self) -> Floats:
        """Return the mean height of the straight line between both ends `[B]`."""
        chord: Floats = (self.values[:, 0] + self._last()) / 2
        return chord


def deletion_at(curves: Curves, shares: Iterable[float] = SHARES) -> Floats:
    """Return the mean heights after these shares of the parts, rounded to the nearest part.

    Use it to draw cases of different lengths; cases without parts are left out.
    """
    asked: Floats = np.array(list(shares), dtype=np.float64)
    if not ((asked >= 0) & (asked <= 1)).all():
        raise InputError(f"Shares must be between 0 and 1, not {asked.tolist()}.")
    some = curves.counts > 0
    step = np.floor(curves.counts[some, None] * asked + 0.5).astype(np.int64)
    heights: Floats = np.take_along_axis(curves.values[some], step, axis=1).mean(axis=0)
    return heights


def normalised_area(curves: Curves, random: Curves, oracle: Curves) -> Measure:
    """Return (mean area − random's) / (oracle's − random's): 0 is random, 1 the greedy oracle.

    It may lie outside, because the greedy order is not always the best, nor a random one the worst.
    """
    area, at_random, best = (one.area() for one in (curves, random, oracle))
    gain, room = area - at_random, best - at_random
    counted = ~np.isnan(room)
    gain, room = gain[counted], room[counted]
    if not len(room) or room.mean() <= 0:
        raise InputError(
            "The greedy oracle is no better than a random order, so nothing lies between them."
        )
    ratio = gain.mean() / room.mean()
    # Linearised, so that the interval accounts for numerator and denominator varying together.
    return mean_measure(
        ratio + (gain - ratio * room) / room.mean(),
        f"mean area between random order (0) and the greedy oracle (1) under the "
        f"{curves.described()}",
        "higher is better",
        (-math.inf, math.inf),
    )


def _counted(values: Floats) -> Floats:
    """Return the values that are not NaN."""
    known: Floats = values[~np.isnan(values)]
    if not len(known):
        raise InputError("No case has enough parts for a curve.")
    return known
