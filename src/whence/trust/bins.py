"""Bins of cases: by confidence for calibration, or by any number for a mean in each bin.

`B` cases are sorted by confidence, and a bin is a range of them. A resample is given by how often
each case was drawn, so that `r` resamples `[r, B]` are binned without sorting again.
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
"""The number of bins of Guo et al. (2017)."""


class BinSums(NamedTuple):
    """Sums over the cases of `K` bins in `r` resamples, each `[r, K]`."""

    cases: Floats
    """The number of cases."""
    correct: Floats
    """The number of correct predictions."""
    confidence: Floats
    """The sum of the confidences."""


class Bins(ABC):
    """How to divide the cases, and what a bin's accuracy is compared with."""

    @property
    @abstractmethod
    def words(self) -> str:
        """For a protocol."""

    @abstractmethod
    def edges(self, confidence: Floats) -> Floats:
        """Return `[K + 1]` edges for sorted confidences; only the last bin has its upper edge."""

    def starts(self, confidence: Floats, drawn: Ints) -> Ints:
        """Return each bin's first place, and the end, in every resample `[r, K + 1]`."""
        return np.tile(places(self.edges(confidence), confidence), (len(drawn), 1))

    def accuracy(self, sums: BinSums) -> Floats:
        """Return correct / count `[r, K]`."""
        return means(sums.correct, sums.cases)

    def expected(self, sums: BinSums) -> Floats:
        """Return the accuracy of a calibrated model `[r, K]`, which is the mean confidence."""
        return means(sums.confidence, sums.cases)


@dataclass(frozen=True)
class EqualWidth(Bins):
    """Bins of equal width from 0 to 1."""

    count: int = FIFTEEN

    def __post_init__(self) -> None:
        _check_count(self.count)

    @property
    def words(self) -> str:
        """For a protocol."""
        return f"{self.count} bins of equal width"

    def edges(self, confidence: Floats) -> Floats:
        """Return 0, …, 1."""
        return np.linspace(0.0, 1.0, self.count + 1)


@dataclass(frozen=True)
class EqualMass(Bins):
    """Bins of equally many cases; cases of equal confidence stay together.

    If many confidences are equal, there are fewer bins.
    """

    count: int = FIFTEEN

    def __post_init__(self) -> None:
        _check_count(self.count)

    @property
    def words(self) -> str:
        """For a protocol."""
        return f"at most {self.count} bins of equally many cases"

    def edges(self, confidence: Floats) -> Floats:
        """Return edges from the least to the most confident case, without empty bins."""
        if not len(confidence):
            return np.array([0.0, 1.0])
        (starts,) = self.starts(confidence, np.ones((1, len(confidence)), dtype=np.int64))
        first = np.unique(starts[:-1])
        return np.append(confidence[first], confidence[-1:])

    def starts(self, confidence: Floats, drawn: Ints) -> Ints:
        """Return starts: bin k starts with the cases as confident as case ⌊k · B / K⌋."""
        resamples, cases = drawn.shape
        row = np.arange(resamples)[:, None]
        asked = np.arange(1, self.count) * cases // self.count + row * (cases + 1)
        # Cases drawn up to each case; each row lies above the last, so the whole is sorted.
        reached = drawn.cumsum(axis=1) + row * (cases + 1)
        case = np.searchsorted(reached.ravel(), asked, side="right") - row * cases
        first_as_sure = np.searchsorted(confidence, confidence)
        ends = np.full((resamples, self.count + 1), cases)
        ends[:, :1], ends[:, 1:-1] = 0, first_as_sure[case]
        return ends


@dataclass(frozen=True)
class JainBins(Bins):
    """The bins in the code of Jain (2019): a tenth wide, from 0.5 on for two classes.

    The accuracy is correct / (count + 10⁻⁵), and is compared with the middle of the bin. Two things
    differ from that code. A confidence of exactly 1 is in the last bin, not in a bin above it. An
    empty bin has no accuracy, instead of 0.
    """

    classes: int = 2

    @property
    def words(self) -> str:
        """For a protocol."""
        return "bins a tenth wide, compared with their middles, as in Jain (2019)"

    def edges(self, confidence: Floats) -> Floats:
        """Return tenths; the highest of C probabilities is never below 1 / C."""
        return self._tenths()

    def accuracy(self, sums: BinSums) -> Floats:
        """Return correct / (count + 10⁻⁵) `[r, K]`."""
        found: Floats = sums.correct / (sums.cases + 1e-5)
        return np.where(sums.cases > 0, found, np.nan)

    def expected(self, sums: BinSums) -> Floats:
        """Return the middles `[r, K]`."""
        middles = self._tenths()[:-1] + 0.05
        return np.where(sums.cases > 0, middles, np.nan)

    def _tenths(self) -> Floats:
        return np.arange(10 // self.classes, 11) / 10


def places(edges: Floats, confidence: Floats) -> Ints:
    """Return where each bin starts in the sorted confidences, and the end `[K + 1]`."""
    first = np.searchsorted(confidence, edges[1:-1])
    return np.concatenate(([0], first, [len(confidence)]))


def bin_sums(starts: Ints, drawn: Ints, correct: Floats, confidence: Floats) -> BinSums:
    """Return the sums over each bin of counts, hits and confidences, all `[r, B]`."""
    return BinSums(*(added(starts, values) for values in (drawn, correct, confidence)))


def added(starts: Ints, values: Ints | Floats | Bools) -> Floats:
    """Return the sums `[r, K]` over each bin of the cases' numbers `[r, B]`."""
    reached = np.zeros((len(values), values.shape[1] + 1))
    values.cumsum(axis=1, out=reached[:, 1:], dtype=np.float64)
    return np.diff(np.take_along_axis(reached, starts, axis=1), axis=1)


def _check_count(count: int) -> None:
    if count < 1:
        raise InputError(f"The number of bins must be at least 1, not {count}.")


# The mean of one number per case, by bins of another number

SHARES: Final = (5, 25, 50, 75, 95)
"""The quantiles of a bin, in per cent."""
QUANTILES: Final = ("least", "lower", "median", "upper", "most")
"""Their names."""


@dataclass(frozen=True, eq=False)
class Binned:
    """The cases in `K` bins; an empty bin has NaN except for its counts."""

    edges: Floats
    """`[K + 1]`: only the last bin includes its upper edge."""
    count: Ints
    """`[K]`: the number of cases."""
    users: Ints
    """`[K]`: the number of users."""
    place: Floats
    """`[K]`: the mean of the number that cases are binned by."""
    mean: Floats
    """`[K]`: the mean over the cases."""
    interval: Floats
    """`[K, 2]`: the 95 % bootstrap interval over users; NaN for fewer than two users."""
    quantiles: Floats
    """`[K, 5]`: the 5, 25, 50, 75 and 95 % quantiles of the cases."""
    protocol: str

    def rows(self) -> list[dict[str, float | None]]:
        """Return one row per bin that has cases, for a chart; `None` stands for no interval."""
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
    """Return the mean of the values `[N]` in every bin of `by` `[N]`, ignoring values of NaN.

    The interval resamples users `[N]` with all their cases, which are not independent; without
    `users`, every case counts as a separate user. The bins are those of all cases, also of those
    without a value.
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
        raise InputError(f"Values, by and users must all be [cases], not of shapes {shapes}.")
    if not np.isfinite(by[~np.isnan(values)]).all():
        raise InputError("The numbers to bin by must be finite; some of these are not.")


def _quantiles(values: Floats, bin_of: Ints, count: Ints) -> Floats:
    """Return the quantiles of each bin `[K, 5]`."""
    in_bins = np.split(values[np.argsort(bin_of, kind="stable")], np.cumsum(count)[:-1])
    none = np.full(len(SHARES), np.nan)
    return np.stack([np.percentile(some, SHARES) if len(some) else none for some in in_bins])
