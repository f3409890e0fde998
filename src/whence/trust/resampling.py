"""The bootstrap over cases and over users."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from whence.arrays import Floats, Ints
from whence.measure import DRAWS_AT_ONCE, RESAMPLES, Direction, Measure, mean_measure
from whence.memory import row_slices
from whence.trust.predictions import Predictions


def means(sums: Floats, counts: Ints | Floats) -> Floats:
    """Return sums / counts; NaN if the count is 0."""
    found: Floats = np.full(counts.shape, np.nan)
    np.divide(sums, counts, out=found, where=counts > 0)
    return found


def resamples_at_once(cases: int) -> Iterator[int]:
    """Yield how many resamples of this many cases to draw at a time, `RESAMPLES` in all."""
    slices = row_slices(RESAMPLES, max(1, DRAWS_AT_ONCE // cases))
    return (len(range(RESAMPLES)[some]) for some in slices)


def drawn_counts(cases: int, seed: int) -> Iterator[Ints]:
    """Yield `[r, B]` at a time: how often each case occurs in each resample."""
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    for count in resamples_at_once(cases):
        drawn = rng.integers(0, cases, (count, cases)) + cases * np.arange(count)[:, None]
        yield np.bincount(drawn.ravel(), minlength=count * cases).reshape(count, cases)


def added_by_user(
    user: Ints, bin_of: Ints, table: tuple[int, int], values: npt.NDArray[Any] | None = None
) -> Floats:
    """Return the sums `[U, K]` of the values of each user in each bin; without values, counts."""
    cell = user * table[1] + bin_of
    return np.bincount(cell, values, math.prod(table)).astype(np.float64).reshape(table)


def intervals_over_users(sums: Floats, counts: Floats, seed: int) -> Floats:
    """Return the 95 % interval of each bin's mean `[K, 2]`, from users' sums and counts `[U, K]`.

    A bin ignores resamples that leave it empty. A bin with a single user has NaN.
    """
    some = np.count_nonzero(counts, axis=0) >= 2
    found = np.full((len(some), 2), np.nan)
    if some.any():
        sums, counts = sums[:, some], counts[:, some]
        pieces = [means(drawn @ sums, drawn @ counts) for drawn in drawn_counts(len(sums), seed)]
        found[some] = np.nanpercentile(np.concatenate(pieces), [2.5, 97.5], axis=0).T
    return found


def mean_over_users(
    values: Floats,
    user: Ints,
    protocol: str,
    direction: Direction = "higher is better",
    range: tuple[float, float] = (0.0, 1.0),
    seed: int = 0,
) -> Measure:
    """Return the mean of one value per case `[B]`, with an interval over the users `[B]`.

    Users are resampled with all their cases. With a single user, the interval is the whole range.
    """
    different, user = np.unique(user, return_inverse=True)
    table, one_bin = (len(different), 1), np.zeros_like(user)
    sums, counts = (added_by_user(user, one_bin, table, one) for one in (values, None))
    low, high = intervals_over_users(sums, counts, seed)[0].tolist() if table[0] > 1 else range
    return Measure(float(values.mean()), (low, high), len(values), protocol, direction, range)


def mean_of_cases(
    predictions: Predictions,
    values: Floats,
    what: str,
    direction: Direction = "higher is better",
    range: tuple[float, float] = (0.0, 1.0),
    seed: int = 0,
) -> Measure:
    """Return the mean of one value per case `[B]`, over users if some have several cases."""
    protocol = f"{what}; {predictions.protocol}{predictions.interval_over}"
    if not predictions.dependent:
        return mean_measure(values, protocol, direction, range, seed)
    return mean_over_users(values, predictions.user_of, protocol, direction, range, seed)
