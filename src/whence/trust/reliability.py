"""Reliability: how often is a model right that is so sure?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from whence.explanation import Floats
from whence.trust.bins import Bins, EqualWidth, bin_sums, places
from whence.trust.predictions import Ints, Predictions

Z: Final = 1.959963984540054
"""95 % of a normal distribution are no more standard deviations from its mean."""


@dataclass(frozen=True, eq=False)
class Reliability:
    """A reliability diagram as data, of `K` bins; an empty one has NaN for all but its count."""

    edges: Floats
    """`[K + 1]`: a bin has its lower edge, and the last one both."""
    count: Ints
    """`[K]`."""
    confidence: Floats
    """`[K]`: the mean."""
    accuracy: Floats
    """`[K]`: the share of cases that were predicted rightly."""
    expected: Floats
    """`[K]`: what it is held against: the mean confidence, or the bin's middle (Jain 2019)."""
    interval: Floats
    """`[K, 2]`: 95 %, Wilson's (1927), of the accuracy."""
    protocol: str

    def error(self) -> float:
        """Σ count / B · |accuracy − expected|, the expected calibration error."""
        return float(np.nansum(self.count * self._gaps()) / self.count.sum())

    def worst(self) -> float:
        """The largest |accuracy − expected|, the maximum calibration error."""
        return float(np.nanmax(self._gaps()))

    def rows(self) -> list[dict[str, float]]:
        """One for every bin that has cases, to draw."""
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
        gaps: Floats = np.abs(self.accuracy - self.expected)
        return gaps


def reliability(predictions: Predictions, bins: Bins | None = None) -> Reliability:
    """By confidence of the predicted class, in 15 bins of equal width unless others are given.

    Of no cases there is a diagram, whose bins are empty.
    """
    bins = bins or EqualWidth()
    confidence, correct = by_confidence(predictions)
    edges = bins.edges(confidence)
    starts = places(edges, confidence)[None]
    once = np.ones((1, len(confidence)), dtype=np.int64)
    sums = bin_sums(starts, once, correct[None], confidence[None])
    return Reliability(
        edges,
        sums.cases[0].astype(np.int64),
        sums.per_case(sums.confidence)[0],
        bins.accuracy(sums)[0],
        bins.expected(sums)[0],
        wilson(sums.correct[0], sums.cases[0]),
        f"{bins.words}; {predictions.protocol}",
    )


def by_confidence(predictions: Predictions) -> tuple[Floats, Floats]:
    """`[B]` twice: confidence and whether correct, as a number, in an order that is theirs alone.

    However the cases are arranged it is the same, bit by bit.
    """
    order = np.lexsort((predictions.correct, predictions.confidence))
    return predictions.confidence[order], predictions.correct[order].astype(np.float64)


def wilson(correct: Floats, count: Floats) -> Floats:
    """`[K, 2]`: the shares that are not refuted by so many of so many; NaN of none."""
    known: Floats = np.where(count > 0, count, np.nan)
    share = correct / known
    middle = share + Z**2 / (2 * known)
    reach = Z * np.sqrt(share * (1 - share) / known + Z**2 / (4 * known**2))
    ends = np.stack((middle - reach, middle + reach), axis=1) / (1 + Z**2 / known)[:, None]
    return ends.clip(0.0, 1.0)
