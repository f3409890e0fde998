"""A number with its interval and everything needed to read it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from whence.arrays import Bools, Floats
from whence.config import build
from whence.errors import InputError
from whence.explanation import Explanation
from whence.memory import cases_at_once, row_slices

Direction = Literal["higher is better", "lower is better", "neither"]

RESAMPLES = 1_000
DRAWS_AT_ONCE = 1_000_000
FEW_OF = 30
"""Values are few when each occurs this often on average."""


@dataclass(frozen=True)
class Measure:
    """The result of every measure, of accuracy or of trust."""

    value: float
    interval: tuple[float, float]
    """95 %."""
    n: int
    """How many points it is a mean of."""
    protocol: str
    """What was measured on what, in words."""
    direction: Direction
    range: tuple[float, float]
    """Infinite where there is no end that holds for all."""

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.value:.3f} [{low:.3f}–{high:.3f}]"

    def as_dict(self) -> dict[str, Any]:
        """Plain types only; an end of the range that is infinite is `None`, as JSON has none."""
        ends = tuple(end if math.isfinite(end) else None for end in self.range)
        return {**asdict(self), "range": ends}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Measure:
        """What `as_dict` wrote down."""
        return build(cls, with_ends(fields))


def with_ends(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A measure's plain fields, where a range that has no end again ends at infinity."""
    low, high = fields["range"]
    ends = (-math.inf if low is None else low, math.inf if high is None else high)
    return {**fields, "range": ends}


def mean_measure(
    values: npt.NDArray[np.floating[Any] | np.bool_],
    protocol: str,
    direction: Direction = "higher is better",
    range: tuple[float, float] = (0.0, 1.0),
    seed: int = 0,
) -> Measure:
    """The mean of one value a user (or case), with a seeded percentile-bootstrap interval."""
    points = values.astype(np.float64)
    if not len(points):
        raise ValueError("the mean of no values")
    interval = bootstrap_interval(points, seed)
    return Measure(float(points.mean()), interval, len(points), protocol, direction, range)


@dataclass(frozen=True)
class SeedMean:
    """The mean over seeds with its 95 % t-interval."""

    value: float
    interval: tuple[float, float]
    spread: float
    """Standard deviation over the seeds, ddof 1."""

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {(self.interval[1] - self.interval[0]) / 2:.3f}"


def mean_over_seeds(values: Sequence[float]) -> SeedMean:
    """One value a seed, at least two of them."""
    mean, spread = float(np.mean(values)), float(np.std(values, ddof=1))
    reach = float(stats.t.ppf(0.975, len(values) - 1)) * spread / len(values) ** 0.5
    return SeedMean(mean, (mean - reach, mean + reach), spread)


def over_seeds(measure: Measure, values: Sequence[float]) -> Measure:
    """The same measure as the mean over seeds, with its interval, kept within its range."""
    mean = mean_over_seeds(values)
    least, most = measure.range
    low, high = mean.interval
    return replace(measure, value=mean.value, interval=(max(low, least), min(high, most)))


def bootstrap_interval(values: npt.NDArray[np.float64], seed: int = 0) -> tuple[float, float]:
    """95 % of the means of `RESAMPLES` samples, drawn from the values with replacement."""
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) * FEW_OF <= len(values):
        # How often each value is drawn is all that matters: hits and misses are two numbers.
        share = counts / len(values)

        def means_of(count: int) -> npt.NDArray[np.float64]:
            return np.asarray(rng.multinomial(len(values), share, count) @ distinct / len(values))
    else:

        def means_of(count: int) -> npt.NDArray[np.float64]:
            drawn = values[rng.integers(0, len(values), (count, len(values)))]
            return np.asarray(drawn.mean(axis=1))

    slices = row_slices(RESAMPLES, max(1, DRAWS_AT_ONCE // len(values)))
    means = np.concatenate([means_of(len(range(RESAMPLES)[some])) for some in slices])
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def by_case(
    compute: Callable[..., Floats], parts: Bools, *importances: Floats, numbers_each: int
) -> Floats:
    """`[B]`: `compute(*importances, parts)`, of some cases at a time if each needs so many numbers.

    All are `[B, n]`; what importances are where there is no part is not looked at.
    """
    if parts.ndim != 2 or any(values.shape != parts.shape for values in importances):
        shapes = " and ".join(str(list(values.shape)) for values in (*importances, parts))
        raise InputError(f"Importances and parts are all [cases, slots], not {shapes}.")
    if not all(np.isfinite(values[parts]).all() for values in importances):
        raise InputError("An importance is a number that is finite, which not all of these are.")
    slices = row_slices(len(parts), cases_at_once(max(1, numbers_each)))
    pieces = [compute(*(values[some] for values in importances), parts[some]) for some in slices]
    return np.concatenate(pieces) if pieces else np.zeros(0)


def check_sizes(sizes: Floats) -> None:
    """Refuse what is below 0 or no finite number."""
    if not ((sizes >= 0) & (sizes < np.inf)).all():
        raise InputError("Importances must be numbers from 0 on; take the sizes of signed ones.")


def same_parts(first: Explanation, second: Explanation) -> Bools:
    """`[B, n]`: the parts that both speak of; explanations of other cases cannot be compared."""
    if not np.array_equal(first.parts, second.parts):
        raise InputError(
            f"Explanations can be compared of the same cases, which those by '{first.method}' and "
            f"'{second.method}' are not."
        )
    return first.parts


def mean_over_cases(
    values: Floats, protocol: str, direction: Direction, range: tuple[float, float]
) -> Measure:
    """The mean over the cases that have a value; NaN is none."""
    there = values[~np.isnan(values)]
    if not len(there):
        raise InputError(f"None of the {len(values):,} cases can be measured: {protocol}.")
    return mean_measure(there, protocol, direction, range)
