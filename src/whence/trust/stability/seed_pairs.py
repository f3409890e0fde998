"""How similar the models of several seeds are, in predictions and in reasons (Jain 2019).

Every pair of `S` seeds is compared on the same `B` cases, in slices. Only two means are kept: over
the pairs, and over the cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from whence.arrays import Bools, Floats, Ints
from whence.contract import PAD
from whence.errors import InputError
from whence.measure import Direction, Measure, check_sizes, mean_measure
from whence.memory import cases_at_once, row_slices
from whence.trust.agreement.rank_agreement import largest
from whence.trust.measures import MEASURES, MeasureSpec, declare_seed_measure
from whence.trust.permutation.entropy import shares

EPSILON: Final = 1e-10
"""Added inside logarithms, which are undefined at 0."""
MOST_NATS: Final = math.log1p(1 / EPSILON)
"""The KL divergence of two distributions that share no part."""


@dataclass(frozen=True, eq=False)
class SeedPairs:
    """How similar every two seeds are on the same cases."""

    cases: Floats
    """`[B]`: the mean over the pairs; NaN if a case has nothing to compare."""
    pairs: Floats
    """`[S, S]`: the mean over the cases of each pair i < j; 0 elsewhere."""
    protocol: str
    direction: Direction
    range: tuple[float, float]

    def measure(self) -> Measure:
        """Return the mean over cases and pairs; its interval is over cases, not seeds."""
        compared = self.cases[~np.isnan(self.cases)]
        return mean_measure(compared, self.protocol, self.direction, self.range)

    def over_seeds(self) -> list[float]:
        """Return one value per seed: the jackknife's pseudo-values S·θ − (S−1)·θ₍₋ₖ₎.

        θ is the mean over all pairs, θ₍₋ₖ₎ over those without seed k. Pairs that share a seed are
        not independent, but pseudo-values are treated as if they were: their mean is θ, and their
        t-interval (`mean_over_seeds`) is the jackknife's. One may lie outside the range.
        """
        seeds = len(self.pairs)
        check_interval_over(seeds)
        total = self.pairs.sum()
        with_seed = self.pairs.sum(axis=0) + self.pairs.sum(axis=1)
        mean = total / math.comb(seeds, 2)
        mean_without = (total - with_seed) / math.comb(seeds - 1, 2)
        values: list[float] = (seeds * mean - (seeds - 1) * mean_without).tolist()
        return values


def check_interval_over(seeds: int) -> None:
    """Raise for fewer than 3 seeds: without one of 2 seeds no pair is left."""
    if seeds < 3:
        raise InputError(f"An interval over seeds needs at least 3 seeds, not {seeds}.")


def attention_kl(importances: Floats, parts: Bools) -> SeedPairs:
    """Return KL(p₁‖p₂) in nats between two seeds' normalized importances; 0 is the same.

    `importances` `[S, B, n]` are magnitudes by attention or any other method, and `parts` `[B, n]`
    are the slots that count. As in Jain (2019), KL goes from the earlier seed to the later, so the
    order of the seeds matters. Cases with fewer than two parts are left out. If a seed finds no
    part important, all have equal shares.
    """

    def compare(rows: Ints) -> Floats:
        p = shares(_sizes(importances, parts, rows), parts[rows, None])
        log_p = np.log(p + EPSILON)
        own = (p * log_p).sum(axis=2, keepdims=True)
        # KL is never negative, except for rounding and EPSILON.
        return np.asarray(np.clip(own - p @ log_p.swapaxes(1, 2), 0.0, MOST_NATS))

    what = "KL(p‖q) in nats between the parts' shares of the importance"
    return _compare_importances(
        importances, parts, compare, what, "lower is better", (0.0, MOST_NATS)
    )


def jaccard_index(importances: Floats, parts: Bools, fraction: float = 0.1) -> SeedPairs:
    """Return |A∩B| / |A∪B| of the most important parts by two seeds; 1 is the same (chapter 3).

    A and B are the ⌈fraction · length⌉ largest `importances` `[S, B, n]` of each case; ties go by
    slot order, as in `Explanation.strongest`. Cases with fewer than two parts are left out.
    """
    if not 0 < fraction <= 1:
        raise InputError(f"fraction must be above 0 and at most 1, not {fraction}.")

    def compare(rows: Ints) -> Floats:
        top = _top(_sizes(importances, parts, rows), parts[rows, None], fraction).astype(np.float64)
        both = top @ top.swapaxes(1, 2)
        return np.asarray(both / (2 * top.sum(axis=2, keepdims=True) - both))

    what = f"the Jaccard index of the top {100 * fraction:g} % of the parts"
    return _compare_importances(importances, parts, compare, what, "higher is better", (0.0, 1.0))


def jaccard_distance(importances: Floats, parts: Bools, fraction: float = 0.2) -> SeedPairs:
    """Return (1 − Jaccard index) · 100 %; 0 is the same (chapter 4)."""
    index = jaccard_index(importances, parts, fraction)
    return replace(
        index,
        cases=100 * (1 - index.cases),
        pairs=np.triu(100 * (1 - index.pairs), 1),
        protocol=index.protocol.replace("index", "distance in per cent"),
        direction="lower is better",
        range=(0.0, 100.0),
    )


def prediction_difference(predictions: Floats) -> SeedPairs:
    """Return |p₁ − p₂| of two seeds' probabilities `[S, B]` of the same events; 0 is the same.

    The code of Jain (2019) computes this, while the text describes `deviation`.
    """
    _check_predictions(predictions)
    return _differences(predictions, "the difference of their predictions", 1.0)


def rating_difference(ratings: Floats) -> SeedPairs:
    """Return |r₁ − r₂| of two seeds' predicted ratings `[S, B]`; 0 is the same."""
    return _differences(ratings, "the difference of their predicted ratings", math.inf)


def _differences(numbers: Floats, what: str, most: float) -> SeedPairs:
    """Return the differences of every two seeds' numbers `[S, B]`, at most `most`."""
    seeds = len(numbers)

    def compare(rows: Ints) -> Floats:
        one = numbers[:, rows].T
        return np.asarray(np.abs(one[:, :, None] - one[:, None]))

    everywhere = np.ones(numbers.shape[1], dtype=np.bool_)
    cases, pairs = _over_pairs(compare, everywhere, seeds, seeds * seeds)
    return SeedPairs(cases, pairs, _protocol(seeds, what), "lower is better", (0.0, most))


def prediction_deviation(predictions: Floats) -> Measure:
    """Return the mean of `deviation`: ½ if half of the seeds are certain of the opposite."""
    protocol = f"mean over cases and {len(predictions)} seeds of |p − the mean over seeds|"
    return mean_measure(deviation(predictions), protocol, "lower is better", (0.0, 0.5))


def deviation(predictions: Floats) -> Floats:
    """Return the mean over seeds of |p − p̄| `[B]`, as in Figure 3.10 of Jain (2019)."""
    _check_predictions(predictions)
    found: Floats = np.abs(predictions - predictions.mean(axis=0)).mean(axis=0)
    return found


def overlap(lists: Ints) -> SeedPairs:
    """Return |A∩B| / k of two seeds' recommendations `[S, B, k]` in any order; 1 is the same.

    `PAD` fills the lists of users with fewer than k items left, and then only these count. Cases
    without items are left out.
    """
    if lists.ndim != 3:
        raise InputError(f"Recommendations must be [seeds, cases, k], not {list(lists.shape)}.")
    seeds, _, k = lists.shape
    sizes = (lists != PAD).sum(axis=2).max(axis=0, initial=0)

    def compare(rows: Ints) -> Floats:
        one = lists[:, rows].swapaxes(0, 1)
        first, second = one[:, :, None, :, None], one[:, None, :, None, :]
        both = ((first == second) & (first != PAD)).sum(axis=(3, 4))
        return np.asarray(both / sizes[rows, None, None])

    cases, pairs = _over_pairs(compare, sizes > 0, seeds, seeds * seeds * k * k)
    what = f"the share of items that two top-{k} lists have in common"
    return SeedPairs(cases, pairs, _protocol(seeds, what), "higher is better", (0.0, 1.0))


def same_choice(chosen: Ints) -> SeedPairs:
    """Return how often two seeds make the same choice `[S, B]`; 1 is always."""

    def compare(rows: Ints) -> Floats:
        one = chosen[:, rows].T
        return np.asarray(one[:, :, None] == one[:, None], dtype=np.float64)

    seeds = len(chosen)
    everywhere = np.ones(chosen.shape[1], dtype=np.bool_)
    cases, pairs = _over_pairs(compare, everywhere, seeds, seeds * seeds)
    what = "whether they choose the same"
    return SeedPairs(cases, pairs, _protocol(seeds, what), "higher is better", (0.0, 1.0))


def choice_in_common(choosing: Bools) -> tuple[SeedPairs, SeedPairs]:
    """Return how often both of two seeds choose something, and how often one does, of `[S, B]`.

    In the second, a case counts half if only one seed chooses it. The first divided by the second
    is how often the other seed chooses it, too. Weighted by the second, these shares of all
    choices add up to `same_choice`.
    """
    seeds = len(choosing)
    everywhere = np.ones(choosing.shape[1], dtype=np.bool_)

    def pairs(of_two: Callable[[Floats, Floats], Floats], what: str) -> SeedPairs:
        def compare(rows: Ints) -> Floats:
            one = choosing[:, rows].T.astype(np.float64)
            return of_two(one[:, :, None], one[:, None])

        cases, found = _over_pairs(compare, everywhere, seeds, seeds * seeds)
        return SeedPairs(cases, found, _protocol(seeds, what), "neither", (0.0, 1.0))

    return (
        pairs(lambda one, other: one * other, "whether both choose it"),
        pairs(lambda one, other: (one + other) / 2, "the share of the two that choose it"),
    )


def _compare_importances(
    importances: Floats,
    parts: Bools,
    compare: Callable[[Ints], Floats],
    what: str,
    direction: Direction,
    range: tuple[float, float],
) -> SeedPairs:
    if importances.ndim != 3 or importances.shape[1:] != parts.shape:
        raise InputError(
            "Importances must be [seeds, cases, slots] and parts [cases, slots], not "
            f"{list(importances.shape)} and {list(parts.shape)}."
        )
    seeds, _, slots = importances.shape
    enough = parts.sum(axis=1) >= 2
    cases, pairs = _over_pairs(compare, enough, seeds, seeds * max(seeds, slots))
    return SeedPairs(cases, pairs, _protocol(seeds, what), direction, range)


def _over_pairs(
    compare: Callable[[Ints], Floats], usable: Bools, seeds: int, numbers_each: int
) -> tuple[Floats, Floats]:
    """Return the means `[B]` and `[S, S]` of what `compare` returns for some cases `[b, S, S]`."""
    _check_several(seeds)
    rows = np.flatnonzero(usable)
    if not len(rows):
        raise InputError(
            "No case can be compared: each needs two parts, or a list of recommendations."
        )
    earlier_later = np.triu(np.ones((seeds, seeds), dtype=np.bool_), 1)
    cases, pairs = np.full(len(usable), np.nan), np.zeros((seeds, seeds))
    for some in row_slices(len(rows), cases_at_once(numbers_each)):
        found = compare(rows[some])
        cases[rows[some]] = found[:, earlier_later].mean(axis=1)
        pairs += found.sum(axis=0)
    return cases, np.triu(pairs / len(rows), 1)


def _sizes(importances: Floats, parts: Bools, rows: Ints) -> Floats:
    """Return the importances of some cases `[b, S, n]`; 0 if there is no part."""
    sizes: Floats = np.where(parts[rows], importances[:, rows], 0).astype(np.float64)
    check_sizes(sizes)
    return sizes.swapaxes(0, 1)


def _top(sizes: Floats, parts: Bools, fraction: float) -> Bools:
    """Return which parts are among the ⌈fraction · length⌉ largest of their case."""
    # Rounded first, because 0.07 · 100 is slightly above 7.
    count = np.ceil(np.round(fraction * parts.sum(axis=2, keepdims=True), 9))
    return largest(sizes, parts, count)


def _check_predictions(predictions: Floats) -> int:
    """Return the number of seeds, or raise if predictions are not probabilities."""
    if predictions.ndim != 2 or not ((predictions >= 0) & (predictions <= 1)).all():
        raise InputError(
            "Predictions must be probabilities [seeds, cases] from 0 to 1; these have the shape "
            f"{list(predictions.shape)}, or some lie outside."
        )
    _check_several(len(predictions))
    return len(predictions)


def _check_several(seeds: int) -> None:
    if seeds < 2:
        raise InputError(f"Stability needs at least 2 seeds, not {seeds}.")


def joined(pieces: Sequence[SeedPairs]) -> SeedPairs:
    """Return the pieces as one; every case of a piece must have been compared."""
    counts = np.array([len(piece.cases) for piece in pieces])
    pairs = np.stack([piece.pairs for piece in pieces])
    return replace(
        pieces[0],
        cases=np.concatenate([piece.cases for piece in pieces]),
        pairs=np.average(pairs, axis=0, weights=counts),
    )


def _protocol(seeds: int, what: str) -> str:
    return f"mean over cases and {math.comb(seeds, 2)} pairs of {seeds} seeds of {what}"


declare_seed_measure(
    "attention-kl",
    attention_kl,
    "How differently do models of two seeds distribute the importance?",
    "lower is better",
    (0.0, MOST_NATS),
    lambda small: small.importances,
    "Jain (2019)",
)
declare_seed_measure(
    "jaccard-index",
    jaccard_index,
    "Do models of two seeds find the same parts most important?",
    "higher is better",
    (0.0, 1.0),
    lambda small: small.importances,
    "Jain (2019)",
)
declare_seed_measure(
    "jaccard-distance",
    jaccard_distance,
    "What percentage of the most important parts changes with the seed?",
    "lower is better",
    (0.0, 100.0),
    lambda small: small.importances,
    "Jain (2019)",
)
declare_seed_measure(
    "overlap",
    overlap,
    "Do models of two seeds recommend the same items?",
    "higher is better",
    (0.0, 1.0),
    lambda small: small.lists,
)
declare_seed_measure(
    "prediction-difference",
    prediction_difference,
    "How much do the probabilities of two seeds differ?",
    "lower is better",
    (0.0, 1.0),
    lambda small: small.probabilities,
    "Jain (2019)",
)
MEASURES.add(
    "prediction-deviation",
    MeasureSpec(
        prediction_deviation,
        "How far are the probabilities from their mean over seeds?",
        "lower is better",
        (0.0, 0.5),
        lambda small: small.probabilities,
        "Jain (2019)",
    ),
)
