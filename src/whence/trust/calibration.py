"""Calibration: of all that a model is 80 % sure of, is it right about 80 %? (Guo et al. 2017)"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from whence.errors import InputError
from whence.explanation import Floats
from whence.measure import Measure
from whence.trust.bin_resamples import OfCases, OfUsers
from whence.trust.bins import FIFTEEN, Bins, BinSums, EqualMass, EqualWidth, JainBins
from whence.trust.predictions import Predictions, check_some
from whence.trust.reliability import by_confidence
from whence.trust.whole_users import mean_of_cases

ROUNDING: Final = 1e-12
"""By which an error may seem to differ from one that it is."""
OfGaps = Callable[[Floats, Floats], Floats]
"""From the gaps `[r, K]` and the share of the cases in each bin to `[r]`."""


def expected_calibration_error(
    predictions: Predictions, bins: Bins | None = None, seed: int = 0
) -> Measure:
    """ECE: Σ share of the cases · |accuracy − mean confidence| over the bins (Naeini et al. 2015).

    15 bins of equal width unless others are given. It is never below what chance does to a model
    that is calibrated, and the more bins to the cases the more; the protocol says how much.
    """
    return _binned_error(predictions, bins or EqualWidth(), _mean, "mean over the cases", seed)


def maximum_calibration_error(
    predictions: Predictions, bins: Bins | None = None, seed: int = 0
) -> Measure:
    """MCE: the largest |accuracy − mean confidence| of a bin, be there ever so few cases in it."""
    return _binned_error(predictions, bins or EqualWidth(), _largest, "largest of the bins", seed)


def adaptive_calibration_error(
    predictions: Predictions, count: int = FIFTEEN, seed: int = 0
) -> Measure:
    """ECE by bins of equally many cases, which go where the confidences are."""
    return expected_calibration_error(predictions, EqualMass(count), seed)


def jain_calibration_error(predictions: Predictions, seed: int = 0) -> Measure:
    """ECE as the code of Jain (2019) has it: by tenths, against their middles.

    A calibrated model need not have 0, as its confidences need not lie about the middles.
    """
    return expected_calibration_error(predictions, JainBins(predictions.classes), seed)


def brier_score(predictions: Predictions, seed: int = 0) -> Measure:
    """The mean of Σ (p − y)² over all classes (Brier 1950): from 0 to 2, of two classes too."""
    check_some(len(predictions))
    what = "mean of Σ (p − y)² over the classes"
    return mean_of_cases(
        predictions, predictions.squares, what, "lower is better", (0.0, 2.0), seed
    )


def negative_log_likelihood(predictions: Predictions, seed: int = 0) -> Measure:
    """The mean of −ln p of the true class, in nats."""
    check_some(len(predictions))
    impossible = int((predictions.log_likelihood == -np.inf).sum())
    if impossible:
        raise InputError(
            f"The true class has a probability of 0 in {impossible:,} of {len(predictions):,} "
            "cases, and −ln 0 is infinite; hand over logits if only rounding made it 0."
        )
    what = "mean of −ln p of the true class, in nats"
    return mean_of_cases(
        predictions,
        -predictions.log_likelihood,
        what,
        "lower is better",
        (0.0, math.inf),
        seed,
    )


def calibration_measures(
    predictions: Predictions, count: int = FIFTEEN, seed: int = 0
) -> dict[str, Measure]:
    """All of them by name, but that of Jain (2019), with so many bins."""
    width = EqualWidth(count)
    return {
        "expected calibration error": expected_calibration_error(predictions, width, seed),
        "maximum calibration error": maximum_calibration_error(predictions, width, seed),
        "adaptive calibration error": adaptive_calibration_error(predictions, count, seed),
        "Brier score": brier_score(predictions, seed),
        "negative log-likelihood": negative_log_likelihood(predictions, seed),
    }


def _binned_error(
    predictions: Predictions, bins: Bins, of_gaps: OfGaps, what: str, seed: int
) -> Measure:
    """The error with its interval: as far below the value as 97.5 % of resamples lie above it.

    Chance makes gaps where there are none, so that the error of a resample is mostly larger than
    that of the cases, as theirs is than the truth. 95 % of the resamples' errors would therefore
    lie above the truth; and where a calibrated model could have this error, 0 is in the interval.
    """
    check_some(len(predictions))
    predictions = by_confidence(predictions)
    resamples = OfUsers if predictions.dependent else OfCases

    def error(sums: BinSums) -> Floats:
        gaps = np.abs(bins.accuracy(sums) - bins.expected(sums))
        return of_gaps(np.nan_to_num(gaps), sums.cases / sums.cases.sum(axis=1, keepdims=True))

    def errors(some: Iterable[BinSums]) -> Floats:
        return np.concatenate([error(sums) for sums in some])

    drawn = resamples(predictions, bins, seed)
    value = float(error(drawn.once())[0])
    by_chance = errors(drawn.if_calibrated())
    possible = errors(drawn.if_gaps_are_chance()) if isinstance(drawn, OfUsers) else by_chance
    high = max(value, float(np.percentile(errors(drawn.resampled()), 97.5)))
    refuted = value - np.percentile(possible, 97.5) > ROUNDING
    return Measure(
        value,
        (max(0.0, 2 * value - high) if refuted else 0.0, min(1.0, high)),
        len(predictions),
        f"|accuracy − confidence|, {what}, in {bins.words}; {predictions.protocol}"
        f"{predictions.interval_over}; a calibrated model would have {by_chance.mean():.3f} by "
        "chance",
        "lower is better",
        (0.0, 1.0),
    )


def _mean(gaps: Floats, shares: Floats) -> Floats:
    mean: Floats = (gaps * shares).sum(axis=1)
    return mean


def _largest(gaps: Floats, shares: Floats) -> Floats:
    largest: Floats = gaps.max(axis=1)
    return largest
