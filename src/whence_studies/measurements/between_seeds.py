"""Comparisons between seeds: one jackknife pseudo-value per seed, over all cases or by bin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np
from scipy import stats

from whence.arrays import Floats, Ints
from whence.errors import InputError
from whence.trust.bins import Bins
from whence.trust.stability.seed_pairs import SeedPairs, check_interval_over, deviation

DEVIATION: Final = "deviation of predictions"
RANDOM_INDEX: Final = "random Jaccard index"

SeedValues = Mapping[str, tuple[tuple[float, ...], int]]
"""By column: one value per seed, and the number of cases."""


def deviation_over_seeds(predictions: Floats) -> list[float]:
    """Return one value per seed of the mean `deviation` over cases, from probabilities `[S, B]`.

    These are the jackknife pseudo-values S·θ − (S−1)·θ₍₋ₖ₎ of `SeedPairs.over_seeds`, shifted so
    that their mean is θ as the thesis prints it. Distances from a mean over fewer seeds are
    smaller, and unshifted pseudo-values would compensate for that.
    """
    seeds = len(predictions)
    check_interval_over(seeds)
    every = float(deviation(predictions).mean())
    without = [float(deviation(np.delete(predictions, k, axis=0)).mean()) for k in range(seeds)]
    return [every - (seeds - 1) * (one - sum(without) / seeds) for one in without]


def ratio_over_seeds(found: SeedPairs, chance: SeedPairs) -> list[float]:
    """Return one value per seed of the ratio of two means over pairs of seeds.

    These are the jackknife pseudo-values of the ratio, shifted so that their mean is the ratio.
    The pseudo-value of a mean is its seed's contribution, so the others give the mean without it.
    """
    of, by = np.array(found.over_seeds()), np.array(chance.over_seeds())
    if not by.mean() > 0:
        raise InputError(
            "The random baseline does not differ between seeds, so there is no ratio to it."
        )
    without = (of.sum() - of) / (by.sum() - by)
    values: list[float] = (
        of.mean() / by.mean() - (len(of) - 1) * (without - without.mean())
    ).tolist()
    return values


def random_jaccard_index(lengths: Ints) -> float:
    """Return the expected Jaccard index of two random sets of ⌈n / 10⌉ of n parts, from n `[B]`.

    They share x parts, which is hypergeometric, and so x / (2k − x) of their union.
    """
    different, counts = np.unique(lengths, return_counts=True)
    sizes = -(-different // 10)
    common = np.arange(sizes.max() + 1)
    probabilities = stats.hypergeom.pmf(common, different[:, None], sizes[:, None], sizes[:, None])
    # Larger overlaps than the sets have probability 0.
    shares = common / np.maximum(2 * sizes[:, None] - common, 1)
    return float(np.average((probabilities * shares).sum(axis=1), weights=counts))


def case_columns(predictions: Floats, pairs: Mapping[str, SeedPairs]) -> SeedValues:
    """Return the deviation of predictions `[S, B]`, and each comparison of pairs of seeds."""
    found = {DEVIATION: (tuple(deviation_over_seeds(predictions)), predictions.shape[1])}
    for name, one in pairs.items():
        found[name] = tuple(one.over_seeds()), int((~np.isnan(one.cases)).sum())
    return found


def by_bin(
    places: Floats, bins: Bins, usable: Ints, of: Callable[[Ints], SeedValues]
) -> Iterator[tuple[int, SeedValues]]:
    """Yield `of` the usable cases in each non-empty bin of `places` `[B]`, numbered from 1."""
    edges = bins.edges(np.sort(places))
    bin_of = np.searchsorted(edges[1:-1], places[usable], side="right")
    for number in np.unique(bin_of):
        yield int(number) + 1, of(usable[bin_of == number])
