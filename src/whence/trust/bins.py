"""Bins: predictions of like confidence, so that their accuracy can be held against it.

`B` cases are sorted by confidence, and a bin is a stretch of them. How often each case was drawn,
`[r, B]`, stands for `r` resamples, which are binned without being sorted again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from whence.errors import InputError
from whence.explanation import Floats
from whence.trust.cases import Bools
from whence.trust.predictions import Ints

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


def means(sums: Floats, counts: Ints | Floats) -> Floats:
    """Of as many; NaN of none."""
    found: Floats = np.full(counts.shape, np.nan)
    np.divide(sums, counts, out=found, where=counts > 0)
    return found


def _check_count(count: int) -> None:
    if count < 1:
        raise InputError(f"Ask for at least one bin, not {count}.")
