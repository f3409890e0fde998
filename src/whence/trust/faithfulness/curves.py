"""Divergences: how far apart are two distributions over all items, in nats?"""

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
"""Of two probabilities whose logarithms are this far apart, the lesser is as good as 0."""


class Divergence(NamedTuple):
    """From log-probabilities `[…, items]` twice to `[…]`, and the most that can come out."""

    between: Callable[[Tensor, Tensor], Tensor]
    most: float


def symmetrised_kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """(KL(P‖Q) + KL(Q‖P)) / 2 = Σ (p − q)(log p − log q) / 2.

    Baumhauer (2021) prints it as JS, which it is not: it is half of Jeffreys' divergence, and has
    no upper bound. In this form no term is below 0, so that small ones are not lost in rounding.
    """
    difference = log_p.exp() - log_q.exp()
    terms = difference * (log_p - log_q)
    return terms.masked_fill_(difference == 0, 0).sum(dim=-1).double() / 2


def jensen_shannon(log_p: Tensor, log_q: Tensor) -> Tensor:
    """(KL(P‖M) + KL(Q‖M)) / 2 with M = (P + Q) / 2; at most ln 2.

    With a = |log p − log q| an item brings (p + q)/4 · (a·tanh(a/2) − 2·log cosh(a/2)), which is
    never below 0; log cosh(x) is taken as log(1 + 2·sinh²(x/2)), exact where a is small.
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
    """The one of that name."""
    if name not in DIVERGENCES:
        raise InputError(f"There is no divergence '{name}': {did_you_mean(name, DIVERGENCES)}")
    return DIVERGENCES[name]


# Curves: how far recommendations have moved after each part that is taken or put back.


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
