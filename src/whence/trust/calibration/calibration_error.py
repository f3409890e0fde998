"""Calibration errors: is a model right in 80 % of the cases it predicts with 80 % confidence?"""

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
from whence.trust.measures import MEASURES, MeasureSpec
from whence.trust.predictions import Predictions, check_some
from whence.trust.resampling import drawn_counts, mean_of_cases, resamples_at_once

ROUNDING: Final = 1e-12
"""Differences of errors up to this are rounding errors."""
OfGaps = Callable[[Floats, Floats], Floats]
"""Reduces the gaps `[r, K]` and the share of cases in each bin to `[r]`."""


def expected_calibration_error(
    predictions: Predictions, bins: Bins | None = None, seed: int = 0
) -> Measure:
    """Return ECE: Σ share of cases · |accuracy − mean confidence| over bins (Naeini et al. 2015).

    By default there are 15 bins of equal width. Random variation gives even a calibrated model an
    error above 0, which grows with the number of bins per case; the protocol says how large it is.
    """
    return _binned_error(predictions, bins or EqualWidth(), _mean, "mean over the cases", seed)


def maximum_calibration_error(
    predictions: Predictions, bins: Bins | None = None, seed: int = 0
) -> Measure:
    """Return MCE: the largest |accuracy − mean confidence| of any bin, however few its cases."""
    return _binned_error(predictions, bins or EqualWidth(), _largest, "largest of the bins", seed)


def adaptive_calibration_error(
    predictions: Predictions, count: int = FIFTEEN, seed: int = 0
) -> Measure:
    """Return ECE with bins of equally many cases, which adapt to the confidences."""
    return expected_calibration_error(predictions, EqualMass(count), seed)


def jain_calibration_error(predictions: Predictions, seed: int = 0) -> Measure:
    """Return ECE as in the code of Jain (2019): bins of a tenth, compared with their middles.

    A calibrated model may not reach 0, because its confidences need not lie around the middles.
    """
    return expected_calibration_error(predictions, JainBins(predictions.classes), seed)


def brier_score(predictions: Predictions, seed: int = 0) -> Measure:
    """Return the mean of Σ (p − y)² over all classes, from 0 to 2 (Brier 1950)."""
    check_some(len(predictions))
    what = "mean of Σ (p − y)² over the classes"
    return mean_of_cases(
        predictions, predictions.squares, what, "lower is better", (0.0, 2.0), seed
    )


def negative_log_likelihood(predictions: Predictions, seed: int = 0) -> Measure:
    """Return the mean of −ln p of the true class, in nats."""
    check_some(len(predictions))
    impossible = int((predictions.log_likelihood == -np.inf).sum())
    if impossible:
        raise InputError(
            f"The true class has a probability of 0 in {impossible:,} of {len(predictions):,} "
            "cases, and −ln 0 is infinite; pass logits if rounding made it 0."
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
    """Return all of them by name except that of Jain (2019), with `count` bins."""
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
    """Return the error with an interval that reflects the 97.5 % quantile of the resamples.

    Random variation adds gaps. The error of a resample is therefore mostly larger than that of the
    cases, just as that is larger than the truth, and a percentile interval would lie above it. The
    lower end mirrors the upper one instead, and is 0 if a calibrated model could have this error.
    """
    check_some(len(predictions))
    predictions = by_confidence(predictions)
    resamples = ResampledUsers if predictions.dependent else ResampledCases

    def error(sums: BinSums) -> Floats:
        gaps = np.abs(bins.accuracy(sums) - bins.expected(sums))
        return of_gaps(np.nan_to_num(gaps), sums.cases / sums.cases.sum(axis=1, keepdims=True))

    def errors(some: Iterable[BinSums]) -> Floats:
        return np.concatenate([error(sums) for sums in some])

    drawn = resamples(predictions, bins, seed)
    value = float(error(drawn.once())[0])
    calibrated = errors(drawn.if_calibrated())
    possible = (
        errors(drawn.if_gaps_are_random()) if isinstance(drawn, ResampledUsers) else calibrated
    )
    high = max(value, float(np.percentile(errors(drawn.resampled()), 97.5)))
    refuted = value - np.percentile(possible, 97.5) > ROUNDING
    return Measure(
        value,
        (max(0.0, 2 * value - high) if refuted else 0.0, min(1.0, high)),
        len(predictions),
        f"|accuracy − confidence|, {what}, in {bins.words}; {predictions.protocol}"
        f"{predictions.interval_over}; a calibrated model would have {calibrated.mean():.3f}",
        "lower is better",
        (0.0, 1.0),
    )


def _mean(gaps: Floats, shares: Floats) -> Floats:
    mean: Floats = (gaps * shares).sum(axis=1)
    return mean


def _largest(gaps: Floats, shares: Floats) -> Floats:
    largest: Floats = gaps.max(axis=1)
    return largest


def _declare(
    name: str,
    compute: Callable[..., Measure],
    question: str,
    most: float,
    citation: str = "",
) -> None:
    """Declare a measure of predictions, from 0 for the best model to `most`."""
    MEASURES.add(
        name,
        MeasureSpec(
            compute,
            question,
            "lower is better",
            (0.0, most),
            lambda small: (small.predictions,),
            citation,
        ),
        tags=("predictions",),
    )


_declare(
    "calibration-error",
    expected_calibration_error,
    "Is the model right as often as its confidence says?",
    1.0,
    "Naeini et al. (2015)",
)
_declare(
    "calibration-error-maximum",
    maximum_calibration_error,
    "How far is its accuracy from its confidence in the worst bin?",
    1.0,
    "Naeini et al. (2015)",
)
_declare(
    "calibration-error-adaptive",
    adaptive_calibration_error,
    "Is it right as often as its confidence says, in bins of equally many cases?",
    1.0,
)
_declare(
    "calibration-error-jain",
    jain_calibration_error,
    "Is it right as often as its confidence says, in tenths compared with their middles?",
    1.0,
    "Jain (2019)",
)
_declare(
    "brier-score",
    brier_score,
    "How far are the probabilities of all classes from the outcome?",
    2.0,
    "Brier (1950)",
)
_declare(
    "negative-log-likelihood",
    negative_log_likelihood,
    "How much does the outcome surprise the model, in nats?",
    math.inf,
)


# Resamples


class ResampledCases:
    """Resamples of independent cases, each with its own bins."""

    def __init__(self, predictions: Predictions, bins: Bins, seed: int) -> None:
        self.confidence = predictions.confidence
        self.correct = predictions.correct.astype(np.float64)
        self.bins, self.seed = bins, seed

    def once(self) -> BinSums:
        """Return the sums `[1, K]` of the cases themselves."""
        return self._of(np.ones((1, len(self.confidence)), dtype=np.int64))

    def resampled(self) -> Iterator[BinSums]:
        """Yield sums of resamples, some at a time."""
        return map(self._of, drawn_counts(len(self.confidence), self.seed))

    def if_calibrated(self) -> Iterator[BinSums]:
        """Yield sums of a calibrated model, whose correct predictions are drawn at random."""
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


class ResampledUsers:
    """Resamples of users with all their cases, in the bins of all cases."""

    def __init__(self, predictions: Predictions, bins: Bins, seed: int) -> None:
        confidence = predictions.confidence
        starts = places(bins.edges(confidence), confidence)
        self.of_each = sums_of_users(predictions, starts)
        self.users, self.seed = len(self.of_each.cases), seed

    def once(self) -> BinSums:
        """Return the sums `[1, K]` of the users themselves."""
        return self._of(np.ones((1, self.users), dtype=np.int64))

    def resampled(self) -> Iterator[BinSums]:
        """Yield sums of resamples, some at a time."""
        return map(self._of, drawn_counts(self.users, self.seed))

    def if_calibrated(self) -> Iterator[BinSums]:
        """Yield sums of a calibrated model whose users differ as much as these do.

        A user's excess of correct predictions over confidence contains the bin's gap, which a
        calibrated model lacks, so the bin's mean gap per case is subtracted. The rest gets a random
        sign per user, as below. It is too small by √(1 − the user's share of the bin's cases),
        since the mean includes these cases (Bell & McCaffrey 2002). In a bin with a single user the
        gap cannot be separated, and stays.
        """
        beyond, share = self._beyond, self.of_each.cases / self.once().cases.clip(min=1)
        left, others = beyond - share * beyond.sum(axis=0), 1 - share
        return self._signed(np.divide(left, np.sqrt(others), out=beyond.copy(), where=others > 0))

    def if_gaps_are_random(self) -> Iterator[BinSums]:
        """Yield sums that are as likely as the observed ones if the model is calibrated.

        A user's excess of correct predictions would then be as likely with the opposite sign: a
        wild bootstrap with a sign per user (Cameron, Gelbach & Miller 2008). The gaps stay in,
        because otherwise few users would too often refute a calibrated model.
        """
        return self._signed(self._beyond)

    @property
    def _beyond(self) -> Floats:
        """Correct predictions minus the sum of confidences `[U, K]`."""
        return self.of_each.correct - self.of_each.confidence

    def _signed(self, beyond: Floats) -> Iterator[BinSums]:
        """Yield sums with each user's excess `[U, K]` added or subtracted at random."""
        rng, once = Randomness(self.seed).numpy("evaluation"), self.once()
        for count in resamples_at_once(self.users):
            signs = rng.choice([-1.0, 1.0], (count, self.users))
            cases, sure = (np.tile(one, (count, 1)) for one in (once.cases, once.confidence))
            yield BinSums(cases, sure + signs @ beyond, sure)

    def _of(self, drawn: Ints) -> BinSums:
        return BinSums(*(drawn @ sums for sums in self.of_each))
