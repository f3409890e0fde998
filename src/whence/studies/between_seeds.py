"""What is measured between seeds, by bins: one pseudo-value a seed in every bin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from whence.explanation import Floats
from whence.trust.bins import Bins
from whence.trust.predictions import Ints
from whence.trust.stability import SeedPairs, check_interval_over, deviation

DEVIATION: Final = "deviation of predictions"

OfSeeds = Mapping[str, tuple[tuple[float, ...], int]]
"""By column one value a seed, and of how many cases."""


def deviation_over_seeds(predictions: Floats) -> list[float]:
    """One value a seed of the mean over cases of `deviation`, from probabilities `[S, B]`.

    The jackknife's pseudo-values S·θ − (S−1)·θ₍₋ₖ₎, as `SeedPairs.over_seeds` has them. A mean of
    distances from a mean over fewer seeds is smaller, which they make up for to a first order; so
    their mean is not θ itself.
    """
    seeds = len(predictions)
    check_interval_over(seeds)
    every = float(deviation(predictions).mean())
    without = [float(deviation(np.delete(predictions, k, axis=0)).mean()) for k in range(seeds)]
    return [seeds * every - (seeds - 1) * one for one in without]


def of_cases(predictions: Floats, pairs: Mapping[str, SeedPairs]) -> OfSeeds:
    """The deviation of predictions `[S, B]`, and of each pair of seeds what is compared."""
    found = {DEVIATION: (tuple(deviation_over_seeds(predictions)), predictions.shape[1])}
    for name, one in pairs.items():
        found[name] = tuple(one.over_seeds()), int((~np.isnan(one.cases)).sum())
    return found


def by_bin(
    places: Floats, bins: Bins, usable: Ints, of: Callable[[Ints], OfSeeds]
) -> Iterator[tuple[int, OfSeeds]]:
    """Of the usable cases in each bin of `places` `[B]`, from 1 on; empty bins are left out."""
    edges = bins.edges(np.sort(places))
    bin_of = np.searchsorted(edges[1:-1], places[usable], side="right")
    for number in np.unique(bin_of):
        yield int(number) + 1, of(usable[bin_of == number])
