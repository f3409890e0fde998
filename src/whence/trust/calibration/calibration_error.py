"""Calibration: of all that a model is 80 % sure of, is it right about 80 %? (Guo et al. 2017)"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np

from whence.arrays import Floats, Ints
from whence.errors import InputError
from whence.measure import Measure
from whence.randomness import Randomness
from whence.trust.bins import (
    FIFTEEN,
    Bins,
    BinSums,
    EqualMass,
    EqualWidth,
    JainBins,
    added,
    bin_sums,
    places,
)
from whence.trust.calibration.reliability import by_confidence, sums_of_users
from whence.trust.predictions import Predictions, check_some
from whence.trust.resampling import drawn_counts, mean_of_cases, resamples_at_once

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


# Resamples of bins: what chance may do to how sure a model is and how often it is right.


class OfCases:
    """Resamples of cases that do not depend on one another, each in bins of its own."""

    def __init__(self, predictions: Predictions, bins: Bins, seed: int) -> None:
        self.confidence = predictions.confidence
        self.correct = predictions.correct.astype(np.float64)
        self.bins, self.seed = bins, seed

    def once(self) -> BinSums:
        """`[1, K]`: of the cases as they are."""
        return self._of(np.ones((1, len(self.confidence)), dtype=np.int64))

    def resampled(self) -> Iterator[BinSums]:
        """Some at a time."""
        return map(self._of, drawn_counts(len(self.confidence), self.seed))

    def if_calibrated(self) -> Iterator[BinSums]:
        """Some at a time: what a calibrated model would predict rightly of them, by chance."""
        rng = Randomness(self.seed).numpy("evaluation")
        confidence = self.confidence
        starts = self.bins.starts(confidence, np.ones((1, len(confidence)), dtype=np.int64))
        cases, sure = np.diff(starts).astype(np.float64), added(starts, confidence[None])
        for count in resamples_at_once(len(confidence)):
            correct = rng.random((count, len(confidence))) < confidence
            hits = added(np.tile(starts, (count, 1)), correct)
            yield BinSums(np.tile(cases, (count, 1)), hits, np.tile(sure, (count, 1)))

    def _of(self, drawn: Ints) -> BinSums:
        starts = self.bins.starts(self.confidence, drawn)
        return bin_sums(starts, drawn, drawn * self.correct, drawn * self.confidence)


class OfUsers:
    """Resamples of users, each with all its cases, in the bins of all cases."""

    def __init__(self, predictions: Predictions, bins: Bins, seed: int) -> None:
        confidence = predictions.confidence
        starts = places(bins.edges(confidence), confidence)
        self.of_each = sums_of_users(predictions, starts)
        self.users, self.seed = len(self.of_each.cases), seed

    def once(self) -> BinSums:
        """`[1, K]`: of the users as they are."""
        return self._of(np.ones((1, self.users), dtype=np.int64))

    def resampled(self) -> Iterator[BinSums]:
        """Some at a time."""
        return map(self._of, drawn_counts(self.users, self.seed))

    def if_calibrated(self) -> Iterator[BinSums]:
        """Some at a time: as often right as sure, but for what users' cases have in common.

        And for noise. What a user's cases in a bin are right about beyond their confidence also
        holds the bin's own gap, which no calibrated model has, so for each of the user's cases the
        bin's mean gap is taken from it. What is left gets a sign for every user, as below. It is
        too small by √(1 − the user's share of the bin's cases), since the mean is of these cases
        (Bell & McCaffrey 2002). In a bin of one user nothing tells the gap from what the cases have
        in common, and it stays.
        """
        beyond, share = self._beyond, self.of_each.cases / self.once().cases.clip(min=1)
        left, others = beyond - share * beyond.sum(axis=0), 1 - share
        return self._signed(np.divide(left, np.sqrt(others), out=beyond.copy(), where=others > 0))

    def if_gaps_are_chance(self) -> Iterator[BinSums]:
        """Some at a time: what is as likely as the cases are, if the model is calibrated.

        What a user's cases are right about beyond their confidence would then have been as likely
        to be missing: a wild bootstrap with a sign for every user (Cameron, Gelbach & Miller 2008).
        The gaps stay in it, or few users would too often refute a model that is calibrated.
        """
        return self._signed(self._beyond)

    @property
    def _beyond(self) -> Floats:
        """`[U, K]`: how many more were right than their confidences add up to."""
        return self.of_each.correct - self.of_each.confidence

    def _signed(self, beyond: Floats) -> Iterator[BinSums]:
        """Some at a time: `[U, K]` more than their confidences add up to, or as many fewer."""
        rng, once = Randomness(self.seed).numpy("evaluation"), self.once()
        for count in resamples_at_once(self.users):
            signs = rng.choice([-1.0, 1.0], (count, self.users))
            cases, sure = (np.tile(one, (count, 1)) for one in (once.cases, once.confidence))
            yield BinSums(cases, sure + signs @ beyond, sure)

    def _of(self, drawn: Ints) -> BinSums:
        return BinSums(*(drawn @ sums for sums in self.of_each))
