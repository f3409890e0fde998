"""Bins: predictions of like confidence, so that their accuracy can be held against it.

`B` cases are sorted by confidence, and a bin is a stretch of them. How often each case was drawn,
`[r, B]`, stands for `r` resamples, which are binned without being sorted again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from whence.arrays import Bools, Floats, Ints
from whence.errors import InputError
from whence.trust.resampling import added_by_user, intervals_over_users, means

FIFTEEN: Final = 15
"""As many as Guo et al. (2017) use."""


class BinSums(NamedTuple):
    """What is known of the `K` bins of `r` resamples, each `[r, K]`."""

    cases: Floats
    """How many."""
    correct: Floats
    """How many were predicted rightly."""
    confidence: Floats
    """Added up."""


class Bins(ABC):
    """A way to cut the cases, and what a bin's accuracy is held against."""

    @property
    @abstractmethod
    def words(self) -> str:
        """For a protocol."""

    @abstractmethod
    def edges(self, confidence: Floats) -> Floats:
        """`[K + 1]`, of sorted confidences. A bin has its lower edge, and the last one both."""

    def starts(self, confidence: Floats, drawn: Ints) -> Ints:
        """`[r, K + 1]`: the place of each bin's first case and the end, in every resample."""
        return np.tile(places(self.edges(confidence), confidence), (len(drawn), 1))

    def accuracy(self, sums: BinSums) -> Floats:
        """`[r, K]`: correct / count."""
        return means(sums.correct, sums.cases)

    def expected(self, sums: BinSums) -> Floats:
        """`[r, K]`: the accuracy that a calibrated model would have, the mean confidence."""
        return means(sums.confidence, sums.cases)


@dataclass(frozen=True)
class EqualWidth(Bins):
    """From 0 to 1, wherever the confidences lie."""

    count: int = FIFTEEN

    def __post_init__(self) -> None:
        _check_count(self.count)

    @property
    def words(self) -> str:
        """For a protocol."""
        return f"{self.count} bins of equal width"

    def edges(self, confidence: Floats) -> Floats:
        """0, …, 1."""
        return np.linspace(0.0, 1.0, self.count + 1)


@dataclass(frozen=True)
class EqualMass(Bins):
    """Equally many cases in every bin, but that those of the same confidence stay together.

    Where many are the same there are fewer bins.
    """

    count: int = FIFTEEN

    def __post_init__(self) -> None:
        _check_count(self.count)

    @property
    def words(self) -> str:
        """For a protocol."""
        return f"at most {self.count} bins of equally many cases"

    def edges(self, confidence: Floats) -> Floats:
        """From the least sure case to the surest, with no bin that is empty; of no case one."""
        if not len(confidence):
            return np.array([0.0, 1.0])
        (starts,) = self.starts(confidence, np.ones((1, len(confidence)), dtype=np.int64))
        first = np.unique(starts[:-1])
        return np.append(confidence[first], confidence[-1:])

    def starts(self, confidence: Floats, drawn: Ints) -> Ints:
        """Bin k begins with those as sure as number ⌊k · B / K⌋ of the cases drawn, from 0."""
        resamples, cases = drawn.shape
        row = np.arange(resamples)[:, None]
        asked = np.arange(1, self.count) * cases // self.count + row * (cases + 1)
        # How many were drawn up to each case, each row above the one before it: sorted as a whole.
        reached = drawn.cumsum(axis=1) + row * (cases + 1)
        case = np.searchsorted(reached.ravel(), asked, side="right") - row * cases
        first_as_sure = np.searchsorted(confidence, confidence)
        ends = np.full((resamples, self.count + 1), cases)
        ends[:, :1], ends[:, 1:-1] = 0, first_as_sure[case]
        return ends


@dataclass(frozen=True)
class JainBins(Bins):
    """As the code of Jain (2019) has them: a tenth wide, from .5 on for two classes.

    The accuracy is correct / (count + 10⁻⁵), and is held against the middle of the bin, wherever
    in it the confidences lie. A confidence of exactly 1 is in the last bin, where the code, which
    numbers bins by ⌊confidence / 0.1⌋, would begin another; and an empty bin, for which it has an
    accuracy of 0, has none.
    """

    classes: int = 2

    @property
    def words(self) -> str:
        """For a protocol."""
        return "bins a tenth wide, held against their middles, as in Jain (2019)"

    def edges(self, confidence: Floats) -> Floats:
        """From the last tenth that no confidence is below, since the classes' sum is 1."""
        return self._tenths()

    def accuracy(self, sums: BinSums) -> Floats:
        """`[r, K]`: correct / (count + 10⁻⁵)."""
        found: Floats = sums.correct / (sums.cases + 1e-5)
        return np.where(sums.cases > 0, found, np.nan)

    def expected(self, sums: BinSums) -> Floats:
        """`[r, K]`: the middles."""
        middles = self._tenths()[:-1] + 0.05
        return np.where(sums.cases > 0, middles, np.nan)

    def _tenths(self) -> Floats:
        return np.arange(10 // self.classes, 11) / 10


def places(edges: Floats, confidence: Floats) -> Ints:
    """`[K + 1]`: where in the sorted confidences each bin begins, and the end."""
    first = np.searchsorted(confidence, edges[1:-1])
    return np.concatenate(([0], first, [len(confidence)]))


def bin_sums(starts: Ints, drawn: Ints, correct: Floats, confidence: Floats) -> BinSums:
    """Of `[r, B]` numbers of the cases, how often they were drawn first."""
    return BinSums(*(added(starts, values) for values in (drawn, correct, confidence)))


def added(starts: Ints, values: Ints | Floats | Bools) -> Floats:
    """`[r, K]`: the numbers `[r, B]` of the cases in each bin, added up."""
    reached = np.zeros((len(values), values.shape[1] + 1))
    values.cumsum(axis=1, out=reached[:, 1:], dtype=np.float64)
    return np.diff(np.take_along_axis(reached, starts, axis=1), axis=1)


def _check_count(count: int) -> None:
    if count < 1:
        raise InputError(f"Ask for at least one bin, not {count}.")


# Binned: the mean of one number of every case, by bins of another such as confidence.


SHARES: Final = (5, 25, 50, 75, 95)
"""Of the cases of a bin, in per cent."""
QUANTILES: Final = ("least", "lower", "median", "upper", "most")
"""What these are called."""


@dataclass(frozen=True, eq=False)
class Binned:
    """The cases in `K` bins; an empty one has NaN for all but its counts."""

    edges: Floats
    """`[K + 1]`: a bin has its lower edge, and the last one both."""
    count: Ints
    """`[K]`: how many cases."""
    users: Ints
    """`[K]`: how many users they are of."""
    place: Floats
    """`[K]`: the mean of what they are binned by."""
    mean: Floats
    """`[K]`: over the cases."""
    interval: Floats
    """`[K, 2]`: 95 %, of the bootstrap over users; NaN unless there are two of them."""
    quantiles: Floats
    """`[K, 5]`: 5, 25, 50, 75 and 95 % of the cases have no more."""
    protocol: str

    def rows(self) -> list[dict[str, float | None]]:
        """One for every bin that has cases, to draw; no interval where they are of one user."""
        columns = {
            "from": self.edges[:-1],
            "to": self.edges[1:],
            "place": self.place,
            "value": self.mean,
            "low": self.interval[:, 0],
            "high": self.interval[:, 1],
            **dict(zip(QUANTILES, self.quantiles.T, strict=True)),
            "cases": self.count,
        }
        some = self.count > 0
        numbers = zip(*(column[some].tolist() for column in columns.values()), strict=True)
        return [
            {name: None if math.isnan(x) else x for name, x in zip(columns, row, strict=True)}
            for row in numbers
        ]


def binned(
    values: Floats,
    by: Floats,
    bins: Bins,
    users: Ints | None = None,
    *,
    protocol: str,
    seed: int = 0,
) -> Binned:
    """The mean of the values `[N]` in every bin of `by` `[N]`; a case without a value is left out.

    Whole users `[N]` are drawn for the interval, as the cases of one are not independent; where
    they are not said, every case is a user of its own. The bins are those of all cases, with a
    value or without.
    """
    users = np.arange(len(values)) if users is None else users
    _check(values, by, users)
    edges = bins.edges(np.sort(by[np.isfinite(by)].astype(np.float64)))
    known = ~np.isnan(values)
    values, by = values[known].astype(np.float64), by[known].astype(np.float64)
    different, user = np.unique(users[known], return_inverse=True)
    table = len(different), len(edges) - 1  # a row for every user, a column for every bin
    bin_of = np.searchsorted(edges[1:-1], by, side="right")
    sums, counts = (added_by_user(user, bin_of, table, one) for one in (values, None))
    count = counts.sum(axis=0).astype(np.int64)
    return Binned(
        edges,
        count,
        np.count_nonzero(counts, axis=0),
        means(np.bincount(bin_of, by, table[1]).astype(np.float64), count),
        means(sums.sum(axis=0), count),
        intervals_over_users(sums, counts, seed),
        _quantiles(values, bin_of, count),
        f"{protocol}; mean over {len(values):,} cases of {len(different):,} users",
    )


def _check(values: Floats, by: Floats, users: Ints) -> None:
    if values.ndim != 1 or values.shape != by.shape or values.shape != users.shape:
        shapes = " and ".join(str(list(one.shape)) for one in (values, by, users))
        raise InputError(f"Every case has a value, a place and a user, not shapes {shapes}.")
    if not np.isfinite(by[~np.isnan(values)]).all():
        raise InputError("What cases are binned by is finite, which is not so for all of these.")


def _quantiles(values: Floats, bin_of: Ints, count: Ints) -> Floats:
    """`[K, 5]`."""
    in_bins = np.split(values[np.argsort(bin_of, kind="stable")], np.cumsum(count)[:-1])
    none = np.full(len(SHARES), np.nan)
    return np.stack([np.percentile(some, SHARES) if len(some) else none for some in in_bins])
