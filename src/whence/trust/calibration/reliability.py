"""Reliability diagrams: accuracy by confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from whence.arrays import Floats, Ints
from whence.trust.bins import Bins, BinSums, EqualWidth, bin_sums, places
from whence.trust.predictions import Predictions, check_some
from whence.trust.resampling import added_by_user, intervals_over_users, means

Z: Final = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""


@dataclass(frozen=True, eq=False)
class Reliability:
    """A reliability diagram of `K` bins; an empty bin has NaN except for its count."""

    edges: Floats
    """`[K + 1]`: only the last bin includes its upper edge."""
    count: Ints
    """`[K]`."""
    confidence: Floats
    """`[K]`: the mean."""
    accuracy: Floats
    """`[K]`: the share of correct predictions."""
    expected: Floats
    """`[K]`: what it is compared with: the mean confidence, or the bin's middle (Jain 2019)."""
    interval: Floats
    """`[K, 2]`: the 95 % interval of the accuracy: Wilson's, or over users if some have several."""
    protocol: str

    def error(self) -> float:
        """Return Σ count / B · |accuracy − expected|, the expected calibration error."""
        return float(np.nansum(self.count * self._gaps()) / self.count.sum())

    def worst(self) -> float:
        """Return the largest |accuracy − expected|, the maximum calibration error."""
        return float(np.nanmax(self._gaps()))

    def rows(self) -> list[dict[str, float]]:
        """Return one row per bin that has cases, for a chart."""
        columns = {
            "from": self.edges[:-1],
            "to": self.edges[1:],
            "sure": self.expected,
            "value": self.accuracy,
            "low": self.interval[:, 0],
            "high": self.interval[:, 1],
            "cases": self.count,
        }
        some = self.count > 0
        numbers = zip(*(column[some].tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in numbers]

    def _gaps(self) -> Floats:
        check_some(self.count.sum())
        gaps: Floats = np.abs(self.accuracy - self.expected)
        return gaps


def reliability(predictions: Predictions, bins: Bins | None = None, seed: int = 0) -> Reliability:
    """Return the reliability diagram, by default in 15 bins of equal width.

    Without cases the bins are empty, and there is no error. The seed draws users, if some have
    several cases.
    """
    bins = bins or EqualWidth()
    predictions = by_confidence(predictions)
    confidence, correct = predictions.confidence, predictions.correct.astype(np.float64)
    edges = bins.edges(confidence)
    starts = places(edges, confidence)[None]
    once = np.ones((1, len(confidence)), dtype=np.int64)
    sums = bin_sums(starts, once, correct[None], confidence[None])
    return Reliability(
        edges,
        sums.cases[0].astype(np.int64),
        means(sums.confidence, sums.cases)[0],
        bins.accuracy(sums)[0],
        bins.expected(sums)[0],
        _over_users(predictions, starts[0], seed)
        if predictions.dependent
        else wilson(sums.correct[0], sums.cases[0]),
        f"{bins.words}; {predictions.protocol}{predictions.interval_over}",
    )


def by_confidence(predictions: Predictions) -> Predictions:
    """Return the cases sorted by confidence, in an order that does not depend on the given one."""
    users = () if predictions.users is None else (predictions.users,)
    return predictions[np.lexsort((*users, predictions.correct, predictions.confidence))]


def _over_users(predictions: Predictions, starts: Ints, seed: int) -> Floats:
    """Return the intervals `[K, 2]` of sorted cases over users.

    If all cases of a bin are right, all wrong or of one user, every resample is the same. Wilson's
    interval for as many cases as there are users is used then.
    """
    sums = sums_of_users(predictions, starts)
    users = np.count_nonzero(sums.cases, axis=0).astype(np.float64)
    share = means(sums.correct.sum(axis=0), sums.cases.sum(axis=0))
    found = intervals_over_users(sums.correct, sums.cases, seed)
    known = (users >= 2) & (share > 0) & (share < 1)
    return np.where(known[:, None], found, wilson(share * users, users))


def sums_of_users(predictions: Predictions, starts: Ints) -> BinSums:
    """Return the sums of each user `[U, K]`, from cases sorted by confidence."""
    table = predictions.user_count, len(starts) - 1
    bin_of = np.repeat(np.arange(table[1]), np.diff(starts))
    values = (None, predictions.correct, predictions.confidence)
    return BinSums(*(added_by_user(predictions.user_of, bin_of, table, one) for one in values))


def wilson(correct: Floats, count: Floats) -> Floats:
    """Return Wilson's (1927) interval `[K, 2]` of the share of correct cases; NaN without cases."""
    known: Floats = np.where(count > 0, count, np.nan)
    share = correct / known
    middle = share + Z**2 / (2 * known)
    reach = Z * np.sqrt(share * (1 - share) / known + Z**2 / (4 * known**2))
    ends = np.stack((middle - reach, middle + reach), axis=1) / (1 + Z**2 / known)[:, None]
    return ends.clip(0.0, 1.0)
