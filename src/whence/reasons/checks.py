"""The tests of one reason in words, each with its figure, over all models that were asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from whence.reasons.amounts import (
    MAJORITY,
    MOST_TIMES,
    before_and_after,
    factor_of,
    loses,
    percent_sure,
    times,
)
from whence.reasons.features import mean_of_others
from whence.reasons.figures import EQUAL, Figures
from whence.reasons.judgement import FEWEST_OF_A_TASTE, LITTLE, RECENT_EVENTS, Kind
from whence.reasons.reason import FIRST, Check
from whence.reasons.reasoner import Found

HUGE: Final = 1e300
"""A stranger's weights can give numbers without bounds."""
LARGEST_CHANGE: Final = 2 * math.log(MOST_TIMES)
ONE_MODEL: Final = "unknown: only one model was asked; a run of several seeds says more"


@dataclass(frozen=True)
class Reported:
    """What the tests of a target are told with."""

    target: int
    """Its place in the list."""
    sure: float
    in_history: bool
    name: str
    """What is left out: titles, or the name of a taste."""
    liked: int = 0
    """How many items of the taste are recent, not rated low, and not the strongest."""


def checks_of(found: Found, kind: Kind, place: int, reported: Reported) -> tuple[Check, ...]:
    """Return the tests of the most probable reason; `place` is that of its item or its pair."""
    if kind == Kind.NONE:
        return ()
    told = _Told(found.figures, reported)
    each = {
        Kind.ITEM: lambda: told.of_item(place),
        Kind.SET: lambda: told.of_pair(place),
        Kind.TASTE: told.of_taste,
        Kind.POPULARITY: told.of_popularity,
    }
    confidence = finite(found.judgement.confidence[0, reported.target])
    asked = f"it is said from {100 * reported.sure:g} % on"
    last = Check(
        "confidence",
        f"{percent_sure(confidence)} likely to be the right reason; {asked}",
        confidence,
        confidence >= reported.sure,
    )
    return (*each[kind](), last)


def finite(value: Tensor | float) -> float:
    """Return a number that JSON can hold."""
    return float(torch.as_tensor(value).double().nan_to_num(0.0, HUGE, -HUGE))


@dataclass(frozen=True, eq=False)
class _Told:
    """The figures of one user's target, and how to tell them."""

    figures: Figures
    about: Reported

    def of_item(self, place: int) -> tuple[Check, ...]:
        """Return the tests of one item."""
        lost = self._own(self.figures.lost)
        over_models = self.figures.lost.mean(dim=0)
        if over_models.shape[1] > 1:
            apart = finite((over_models - mean_of_others(over_models))[0, self.about.target, place])
            says = f"without it, the other ones keep {times(apart)} as much of their probability"
            specificity = Check("specificity", says, _factor(apart), apart > 0, False)
        else:
            says = "there is no other recommendation to compare with"
            specificity = Check("specificity", says, None, None, False)
        return (
            *self._without(lost[:, place], self.figures.rank_without[0, self.about.target, place]),
            self._alone(self._own(self.figures.alone)[:, place], "it alone makes"),
            specificity,
            self._agreement(lost[:, place] >= lost.amax(dim=1), "it matters most"),
        )

    def of_pair(self, place: int) -> tuple[Check, ...]:
        """Return the tests of two items together."""
        lost, alone = self._own(self.figures.pair_lost), self._own(self.figures.pair_alone)
        pair = self.figures.pairs[0, self.about.target, place]
        single = self._own(self.figures.alone)[:, pair].mean(dim=0).max()
        beyond = finite(alone[:, place].mean() - single)
        says = f"both make it {times(beyond)} as probable as the stronger one alone"
        rank = self.figures.pair_rank_without[0, self.about.target, place]
        return (
            *self._without(lost[:, place], rank),
            self._alone(alone[:, place], "both alone make"),
            Check("specificity", says, _factor(beyond), beyond > 0, False),
            self._agreement(lost[:, place] >= lost.amax(dim=1), "they matter most of all pairs"),
        )

    def of_taste(self) -> tuple[Check, ...]:
        """Return the tests of a taste."""
        lost, others = self._own(self.figures.group_lost), self._own(self.figures.others_lost)
        apart = finite(lost.mean() - others.mean())
        says = f"{loses(finite(others.mean()))} without as many other items"
        return (
            *self._without(lost, self.figures.group_rank_without[0, self.about.target]),
            self._alone(self._own(self.figures.group_alone), "these items alone make"),
            Check("specificity", says, _factor(apart), apart > EQUAL),
            Check(
                "several items",
                f"{self.about.liked} of the last {RECENT_EVENTS} besides the strongest; at least "
                f"{FEWEST_OF_A_TASTE} are needed",
                float(self.about.liked),
                self.about.liked >= FEWEST_OF_A_TASTE,
            ),
            self._agreement(lost > others, "more is lost than without other items"),
        )

    def of_popularity(self) -> tuple[Check, ...]:
        """Return the tests of what is popular."""
        lift = self._own(self.figures.full) - self._own(self.figures.marginal)
        mean = finite(lift.mean())
        rank, anyway = (
            int(one[0, self.about.target]) for one in (self.figures.rank, self.figures.rank_anyway)
        )
        high = anyway <= max(FIRST, rank)
        says = f"your history makes it {times(mean)} as probable as it is for everyone"
        return (
            Check("history adds little", says, _factor(mean), mean < LITTLE),
            Check("recommended anyway", f"rank {anyway} without your history", float(anyway), high),
            self._agreement(lift < LITTLE, "the history adds little"),
        )

    def _own(self, values: Tensor) -> Tensor:
        """Return the figures `[S, …]` of this target."""
        return values[:, 0, self.about.target].double().nan_to_num(0.0, HUGE, -HUGE)

    def _without(self, lost: Tensor, rank_without: Tensor) -> tuple[Check, ...]:
        """Return direction and necessity, for what each model loses `[S]`."""
        mean, count = finite(lost.mean()), len(lost)
        direction = f"counts for it in {int((lost > EQUAL).sum())} of {count} models"
        if count == 1:
            direction = "counts for it" if mean > EQUAL else "does not count for it"
        rank = int(self.figures.rank[0, self.about.target])
        ranks = before_and_after(rank, int(rank_without), self.about.in_history)
        share = -math.expm1(-max(mean, -LARGEST_CHANGE))
        says = f"{loses(mean)} if {self.about.name} is really left out (rank {ranks})"
        if self.about.in_history:
            says = f"{loses(mean)} if {self.about.name} is really left out"
        return (
            Check("direction", direction, mean, mean > EQUAL),
            Check("necessity", says, share, mean > EQUAL),
        )

    def _alone(self, alone: Tensor, subject: str) -> Check:
        mean = finite(alone.mean())
        says = f"{subject} the recommendation {times(mean)} as probable as usual"
        return Check("sufficiency", says, _factor(mean), mean > EQUAL)

    def _agreement(self, agrees: Tensor, says: str) -> Check:
        if len(agrees) == 1:
            return Check("agreement", ONE_MODEL, None, None, False)
        share = float(agrees.double().mean())
        count = f"in {int(agrees.sum())} of {len(agrees)} models {says}"
        return Check("agreement", count, share, share > MAJORITY, False)


def _factor(change: float) -> float:
    """Return what a probability is multiplied with."""
    return factor_of(max(change, -LARGEST_CHANGE))
