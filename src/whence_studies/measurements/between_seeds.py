"""What is measured between seeds, by bins: one pseudo-value a seed in every bin."""

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
BY_CHANCE: Final = "random Jaccard index"

SeedValues = Mapping[str, tuple[tuple[float, ...], int]]
"""By column one value a seed, and of how many cases."""


def deviation_over_seeds(predictions: Floats) -> list[float]:
    """One value a seed of the mean over cases of `deviation`, from probabilities `[S, B]`.

    The jackknife's pseudo-values S·θ − (S−1)·θ₍₋ₖ₎, as `SeedPairs.over_seeds` has them, moved so
    that their mean is θ as the thesis prints it: from a mean over fewer seeds distances are
    smaller, and the pseudo-values would make up for that.
    """
    seeds = len(predictions)
    check_interval_over(seeds)
    every = float(deviation(predictions).mean())
    without = [float(deviation(np.delete(predictions, k, axis=0)).mean()) for k in range(seeds)]
    return [every - (seeds - 1) * (one - sum(without) / seeds) for one in without]


def ratio_over_seeds(found: SeedPairs, chance: SeedPairs) -> list[float]:
    """One value a seed of what `found` comes to as a share of `chance`, each a mean over pairs.

    The jackknife's pseudo-values of the ratio, moved so that their mean is the ratio itself. A
    pseudo-value of a mean is what leaves the mean without its seed as that of the others.
    """
    of, by = np.array(found.over_seeds()), np.array(chance.over_seeds())
    if not by.mean() > 0:
        raise InputError("By chance seeds do not differ at all here, so that there is no share.")
    without = (of.sum() - of) / (by.sum() - by)
    values: list[float] = (
        of.mean() / by.mean() - (len(of) - 1) * (without - without.mean())
    ).tolist()
    return values


def index_by_chance(lengths: Ints) -> float:
    """The mean Jaccard index of any two sets of ⌈n / 10⌉ parts, of histories of n parts `[B]`.

    They have x parts in common, which is hypergeometric, and so x / (2k − x) of their union.
    """
    different, counts = np.unique(lengths, return_counts=True)
    sizes = -(-different // 10)
    common = np.arange(sizes.max() + 1)
    chances = stats.hypergeom.pmf(common, different[:, None], sizes[:, None], sizes[:, None])
    # More in common than there are has no chance, and no share either.
    shares = common / np.maximum(2 * sizes[:, None] - common, 1)
    return float(np.average((chances * shares).sum(axis=1), weights=counts))


def of_cases(predictions: Floats, pairs: Mapping[str, SeedPairs]) -> SeedValues:
    """The deviation of predictions `[S, B]`, and of each pair of seeds what is compared."""
    found = {DEVIATION: (tuple(deviation_over_seeds(predictions)), predictions.shape[1])}
    for name, one in pairs.items():
        found[name] = tuple(one.over_seeds()), int((~np.isnan(one.cases)).sum())
    return found


def by_bin(
    places: Floats, bins: Bins, usable: Ints, of: Callable[[Ints], SeedValues]
) -> Iterator[tuple[int, SeedValues]]:
    """Of the usable cases in each bin of `places` `[B]`, from 1 on; empty bins are left out."""
    edges = bins.edges(np.sort(places))
    bin_of = np.searchsorted(edges[1:-1], places[usable], side="right")
    for number in np.unique(bin_of):
        yield int(number) + 1, of(usable[bin_of == number])
