"""Accuracy on held-out events, and what the recommended lists are like.

Accuracy is the rank of the item that came next, or the error of its rating.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from whence.arrays import Floats
from whence.data.published_negatives import NEGATIVES, find_negatives, published_negatives
from whence.data.splits import HeldOut, Split
from whence.errors import InputError, did_you_mean
from whence.measure import Direction, Measure, mean_measure
from whence.models.base import CaseReader
from whence.training.lists import RANGES, Lists
from whence.training.negatives import Unseen
from whence.training.ranks import (
    SAMPLED,
    full_ranks,
    ranks_among,
    ranks_and_lists,
    rated_cases,
    rating_errors,
    sampled_ranks,
)

TOP = 10
OF_SAMPLED = f" of {SAMPLED + 1}"
AS_PUBLISHED = f" of {NEGATIVES + 1} published"
RATING_ERROR = "rating error"
AT_K = r"@[1-9]\d*"
MEASURE = re.compile(
    rf"MRR|(?P<rated>{RATING_ERROR})|(?:recall|NDCG){AT_K}|recall{AT_K}(?P<sampled>{OF_SAMPLED})"
    rf"|(?:HR|NDCG){AT_K}(?P<published>{AS_PUBLISHED})"
)


@dataclass(frozen=True, eq=False)
class PerCase:
    """One value per case for every measure, with its protocol; NaN if a case has no value."""

    values: dict[str, Floats]
    protocols: dict[str, str]

    def measures(self) -> dict[str, Measure]:
        """Return the means with their intervals; a measure without any value is left out."""
        return {
            name: _mean(values, self.protocols[name], _direction(name), _range(name))
            for name, values in self.values.items()
            if not np.isnan(values).all()
        }

    def only(self, name: str) -> PerCase:
        """Return one of the measures."""
        return PerCase({name: self.values[name]}, {name: self.protocols[name]})

    def lead_over(self, other: PerCase) -> dict[str, Measure]:
        """Return the differences from another on the same cases; the intervals are paired.

        Measures that the other lacks are left out.
        """
        both = [name for name in self.values if name in other.values]
        leads = {name: self.values[name] - other.values[name] for name in both}
        return {
            name: _mean(
                lead,
                f"difference, case by case; {self.protocols[name]}",
                _direction(name),
                (_range(name)[0] - _range(name)[1], _range(name)[1] - _range(name)[0]),
            )
            for name, lead in leads.items()
            if not np.isnan(lead).all()
        }


@dataclass(frozen=True)
class Evaluation:
    """Measures how well any model predicts the held-out events of a split."""

    split: Split
    held: HeldOut
    max_len: int
    """The number of items of a history that the model reads."""
    top: int = TOP
    """The k of recall@k and NDCG@k."""
    seed: int = 0
    """The seed of the random items."""
    show_progress: bool = False

    def __post_init__(self) -> None:
        if self.held not in self.split.held:
            known = did_you_mean(self.held, self.split.held)
            raise InputError(f"The split holds out no part called '{self.held}': {known}")
        if self.max_len < 1 or self.top < 1 or int(self.top) != self.top:
            raise InputError(
                f"max_len and top must be whole numbers of at least 1, not {self.max_len} and "
                f"{self.top}."
            )
        if not len(self.split.held[self.held]):
            raise InputError(
                f"The split holds out no {self.held} events. last-two needs users with three "
                "events; last-one needs two and holds out no validation events."
            )

    def of(self, model: CaseReader) -> PerCase:
        """Measure by every protocol that applies; at most 100 items are not sampled."""
        cases, item_count = self.split.held[self.held], self.split.interactions.item_count
        ranks, items = ranks_and_lists(
            model, cases, self.max_len, item_count, self.top, self.show_progress
        )
        found = [self._ranked(ranks)]
        if self.split.interactions.item_count > SAMPLED:
            found.append(self.sampled(model))
        negatives = find_negatives(self.split.interactions)
        if negatives is not None and negatives.fits(self.split.held[self.held]):
            found.append(self.published(model))
        if not model.predicts_probabilities:
            found.append(self.rated(model))
        found.append(self._listed(Lists(items, cases, self.split)))
        return PerCase(
            {name: values for one in found for name, values in one.values.items()},
            {name: protocol for one in found for name, protocol in one.protocols.items()},
        )

    def full(self, model: CaseReader) -> PerCase:
        """Measure by the rank of the true item among all items."""
        cases, item_count = self.split.held[self.held], self.split.interactions.item_count
        return self._ranked(full_ranks(model, cases, self.max_len, item_count, self.show_progress))

    def _ranked(self, ranks: Floats) -> PerCase:
        values = {
            f"recall@{self.top}": (ranks < self.top).astype(np.float64),
            f"NDCG@{self.top}": gain(ranks, self.top),
            "MRR": 1 / (1 + ranks),
        }
        protocol = f"{self._events}; ranked among itself and all items the user has not seen"
        return PerCase(values, dict.fromkeys(values, protocol))

    def _listed(self, lists: Lists) -> PerCase:
        at = f"@{self.top}"
        protocols = lists.protocols(self.top)
        return PerCase(
            {f"{name}{at}": values for name, values in lists.values().items()},
            {f"{name}{at}": f"{self._events}; {said}" for name, said in protocols.items()},
        )

    def sampled(self, model: CaseReader) -> PerCase:
        """Measure by the rank among 100 random items, the sampled protocol of the papers."""
        cases, unseen = self.split.held[self.held], Unseen.of(self.split)
        ranks = sampled_ranks(model, cases, self.max_len, unseen, self.seed, self.show_progress)
        name = f"recall@{self.top}{OF_SAMPLED}"
        protocol = (
            f"{self._events}; ranked among {SAMPLED} random items outside the user's training "
            "events (any items, for users who have seen them all)"
        )
        return PerCase({name: (ranks < self.top).astype(np.float64)}, {name: protocol})

    def published(self, model: CaseReader) -> PerCase:
        """Measure by the rank among published negatives, as He et al. (2017) and others do."""
        cases = self.split.held[self.held]
        rivals = published_negatives(self.split.interactions).of(cases)
        ranks = ranks_among(model, cases, self.max_len, rivals, self.show_progress)
        values = {
            f"HR@{self.top}{AS_PUBLISHED}": (ranks < self.top).astype(np.float64),
            f"NDCG@{self.top}{AS_PUBLISHED}": gain(ranks, self.top),
        }
        own = int((rivals == cases.targets[:, None]).any(axis=1).sum())
        protocol = (
            f"{self._events}; ranked among itself and the {NEGATIVES} negatives published for it "
            f"(He et al. 2017), but for itself where it is one of them ({own:,} times)"
        )
        return PerCase(values, dict.fromkeys(values, protocol))

    def rated(self, model: CaseReader) -> PerCase:
        """Measure by the error of predicted ratings; empty if no event has a rating."""
        cases, interactions = self.split.held[self.held], self.split.interactions
        errors = rating_errors(model, interactions, cases, self.max_len)
        if not len(errors):
            return PerCase({}, {})
        protocol = (
            f"{self._events}; |expected − given| of the {len(errors):,} that have a rating, in "
            "points of it"
        )
        return PerCase({RATING_ERROR: errors}, {RATING_ERROR: protocol})

    def check(self, measure: str, model: CaseReader) -> None:
        """Refuse a metric that does not apply to these events or to such a model."""
        cases, interactions = self.split.held[self.held], self.split.interactions
        if measure.endswith(AS_PUBLISHED):
            published_negatives(interactions).of(cases)
        if measure != RATING_ERROR:
            return
        if model.predicts_probabilities:
            raise InputError(
                f"{RATING_ERROR} is for models that predict ratings, such as content-ncf and "
                f"intrp-ncf with predict_ratings=true. Choose another metric, such as NDCG@{TOP}."
            )
        if not len(rated_cases(interactions, cases)):
            raise InputError(f"No {self.held} event has a rating. Choose another metric.")

    def mean(self, measure: str, model: CaseReader) -> float:
        """Return one measure by its name, for any k, without computing the others."""
        name = MEASURE.fullmatch(measure)
        assert name is not None
        k = measure.partition("@")[2].partition(" ")[0]
        evaluation = replace(self, top=int(k or TOP))
        if name["rated"]:
            found = self.rated(model)
        elif name["published"]:
            found = evaluation.published(model)
        else:
            found = evaluation.sampled(model) if name["sampled"] else evaluation.full(model)
        return float(found.values[measure].mean())

    @property
    def _events(self) -> str:
        count = len(self.split.held[self.held])
        return f"{count:,} {self.held} event{'s' * (count != 1)}, {self.split.protocol}"


def evaluate(
    model: CaseReader,
    split: Split,
    held: HeldOut,
    max_len: int,
    *,
    top: int = TOP,
    seed: int = 0,
    show_progress: bool = False,
) -> dict[str, Measure]:
    """Return the accuracy on held-out events and what the lists are like, by name of the measure.

    The true item is ranked among all items, among 100 random ones, and among published negatives
    if the data have some. Models that predict ratings are also measured by their error. The lists
    of the `top` best unseen items have a coverage, novelty, diversity and popularity bias.
    `max_len` is the number of items of a history that the model reads. `top` is also the k of
    recall@k and NDCG@k, and `seed` draws the random items.
    """
    return Evaluation(split, held, max_len, top, seed, show_progress).of(model).measures()


def index_of_best(measure: str, values: Sequence[float]) -> int:
    """Return the index of the best value, the first of equals."""
    choose = min if _direction(measure) == "lower is better" else max
    return values.index(choose(values))


def _mean(
    values: Floats, protocol: str, direction: Direction, range: tuple[float, float]
) -> Measure:
    """Return the mean over the cases that have a value."""
    found = mean_measure(values[~np.isnan(values)], protocol, direction, range)
    # The values of coverage lie around the share that they are about, so their means can leave it.
    value, low, high = (float(end) for end in np.clip((found.value, *found.interval), *range))
    # Rounding can put the mean of equal values outside of their interval.
    return replace(found, value=value, interval=(min(low, value), max(high, value)))


def _direction(name: str) -> Direction:
    if _kind(name) in RANGES:
        return "neither"
    return "lower is better" if name == RATING_ERROR else "higher is better"


def _range(name: str) -> tuple[float, float]:
    return RANGES.get(_kind(name), (0.0, np.inf if name == RATING_ERROR else 1.0))


def _kind(name: str) -> str:
    return name.partition("@")[0]


def gain(ranks: Floats, top: int = TOP) -> Floats:
    """Return NDCG@k for one true item: 1 / log₂(rank + 2) among the first k, ranks from 0."""
    return np.where(ranks < top, 1 / np.log2(ranks + 2), 0.0)


def check_metric(name: str) -> None:
    """Refuse a name that is not a measure of accuracy."""
    if _kind(name) in RANGES:
        raise InputError(
            f"{_kind(name).capitalize()} says nothing about accuracy, so it cannot choose the best "
            f"weights. Choose another metric, such as NDCG@{TOP}."
        )
    if not MEASURE.fullmatch(name):
        known = [f"recall@{TOP}", f"NDCG@{TOP}", "MRR", f"recall@{TOP}{OF_SAMPLED}"]
        known += [*(f"{one}@{TOP}{AS_PUBLISHED}" for one in ("HR", "NDCG")), RATING_ERROR]
        raise InputError(
            f"There is no measure '{name}': {did_you_mean(name, known)} Any k can replace {TOP}."
        )
