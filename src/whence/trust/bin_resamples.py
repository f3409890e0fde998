"""Resamples of bins: what chance may do to how sure a model is and how often it is right.

Of cases that are sorted by confidence.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whence.explanation import Floats
from whence.randomness import Randomness
from whence.trust.bins import Bins, BinSums, added, bin_sums, places
from whence.trust.predictions import Ints, Predictions
from whence.trust.reliability import sums_of_users
from whence.trust.resampling import drawn_counts, resamples_at_once


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
