"""A number with its 95 % interval and what you need to read it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from rich.console import Group
from rich.text import Text
from scipy import stats

from whence.arrays import Bools, Floats
from whence.config import build
from whence.errors import InputError
from whence.explanation import Explanation
from whence.memory import cases_at_once, row_slices
from whence.terminal import Result, captioned, plain_table

Direction = Literal["higher is better", "lower is better", "neither"]

RESAMPLES: Final = 1_000
DRAWS_AT_ONCE: Final = 1_000_000
REPEATS_PER_VALUE: Final = 30
"""The bootstrap draws counts instead of values if each distinct value occurs this often."""
NO_INTERVAL: Final = (math.nan, math.nan)
"""The interval of a measure of a single point."""
NOT_SHOWN: Final = "–"
"""The value of an interval that does not exist."""
ENOUGH: Final = 20
"""With fewer cases no difference is called clear: a few equal values give an empty interval."""


@dataclass(frozen=True, repr=False)
class Measure(Result):
    """The result of every measure, of accuracy or of trust."""

    value: float
    interval: tuple[float, float]
    """The 95 % interval; `NO_INTERVAL` if `n` is 1, since one point says nothing about spread."""
    n: int
    """The number of points that the value is a mean of."""
    protocol: str
    """What was measured on which data, in words."""
    direction: Direction
    range: tuple[float, float]
    """The smallest and largest possible value; infinite if there is no bound."""

    def __post_init__(self) -> None:
        if self.n == 1:
            object.__setattr__(self, "interval", NO_INTERVAL)

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The ends of the interval for charts and JSON: `None` if there is no interval."""
        low, high = self.interval
        return (None, None) if math.isnan(low) else (low, high)

    def __str__(self) -> str:
        low, high = self.interval
        interval = NOT_SHOWN if math.isnan(low) else f"{low:.3f}–{high:.3f}"
        return f"{self.value:.3f} [{interval}]"

    def __repr__(self) -> str:
        return f"Measure({self}, n={self.n:,}, {self.direction})"

    def __rich__(self) -> Text:
        """Return the value, and below it what was measured."""
        return Text.assemble((str(self), "bold"), f"  {self.direction}\n", (self.protocol, "dim"))

    def as_dict(self) -> dict[str, Any]:
        """Return plain types only; `None` stands for no interval and for an infinite bound."""
        bounds = tuple(end if math.isfinite(end) else None for end in self.range)
        interval = None if self.bounds == (None, None) else self.interval
        return {**asdict(self), "interval": interval, "range": bounds}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Measure:
        """Return the measure that `as_dict` described."""
        return build(cls, restore_bounds(document))


def restore_bounds(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a measure's plain fields with NaN and infinity where JSON has `None`."""
    low, high = fields["range"]
    return {
        **fields,
        "interval": NO_INTERVAL if fields["interval"] is None else fields["interval"],
        "range": (-math.inf if low is None else low, math.inf if high is None else high),
    }


def clearly_positive(interval: tuple[float, float], cases: int) -> bool:
    """Return whether a difference is above 0: its interval is, and there are enough cases."""
    return cases >= ENOUGH and interval[0] > 0


def protocol_lines(protocols: Mapping[str, str]) -> list[str]:
    """Return how each measure was taken, by its name; what all have in common is the first line."""
    named: dict[str, list[str]] = {}
    for name, protocol in protocols.items():
        named.setdefault(protocol, []).append(name)
    clauses = [protocol.split("; ") for protocol in named]
    together = zip(*(one[:-1] for one in clauses), strict=False) if len(named) > 1 else ()
    shared = [one for one, *_ in takewhile(lambda every: len(set(every)) == 1, together)]
    lines = [
        f"{', '.join(names)}: {'; '.join(one[len(shared) :])}"
        for names, one in zip(named.values(), clauses, strict=True)
    ]
    return ["; ".join(shared), *lines] if shared else lines


def mean_measure(
    values: npt.NDArray[np.floating[Any] | np.bool_],
    protocol: str,
    direction: Direction = "higher is better",
    range: tuple[float, float] = (0.0, 1.0),
    seed: int = 0,
) -> Measure:
    """Return the mean of one value per user or case, with a percentile-bootstrap interval."""
    points = values.astype(np.float64)
    if not len(points):
        raise ValueError("the mean of no values")
    interval = NO_INTERVAL if len(points) == 1 else bootstrap_interval(points, seed)
    return Measure(float(points.mean()), interval, len(points), protocol, direction, range)


@dataclass(frozen=True)
class SeedMean:
    """The mean over seeds with its 95 % t-interval."""

    value: float
    interval: tuple[float, float]
    spread: float
    """The standard deviation over the seeds (ddof 1)."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the interval, as `Measure` has them."""
        return self.interval

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {(self.interval[1] - self.interval[0]) / 2:.3f}"


def mean_over_seeds(values: Sequence[float]) -> SeedMean:
    """Return the mean of one value per seed, for at least two seeds."""
    mean, spread = float(np.mean(values)), float(np.std(values, ddof=1))
    reach = float(stats.t.ppf(0.975, len(values) - 1)) * spread / len(values) ** 0.5
    return SeedMean(mean, (mean - reach, mean + reach), spread)


def over_seeds(measure: Measure, values: Sequence[float]) -> Measure:
    """Return the measure as a mean over seeds; its interval is clipped to the measure's range."""
    mean = mean_over_seeds(values)
    least, most = measure.range
    low, high = mean.interval
    return replace(measure, value=mean.value, interval=(max(low, least), min(high, most)))


def bootstrap_interval(values: npt.NDArray[np.float64], seed: int = 0) -> tuple[float, float]:
    """Return the middle 95 % of the means of `RESAMPLES` samples drawn with replacement."""
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) * REPEATS_PER_VALUE <= len(values):
        # Only how often each value is drawn matters: hits and misses are two numbers.
        share = counts / len(values)

        def draw_means(count: int) -> npt.NDArray[np.float64]:
            return np.asarray(rng.multinomial(len(values), share, count) @ distinct / len(values))
    else:

        def draw_means(count: int) -> npt.NDArray[np.float64]:
            drawn = values[rng.integers(0, len(values), (count, len(values)))]
            return np.asarray(drawn.mean(axis=1))

    slices = row_slices(RESAMPLES, max(1, DRAWS_AT_ONCE // len(values)))
    means = np.concatenate([draw_means(len(range(RESAMPLES)[some])) for some in slices])
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def by_case(
    compute: Callable[..., Floats], parts: Bools, *importances: Floats, numbers_each: int
) -> Floats:
    """Return `compute(*importances, parts)` `[B]`, computed in slices of the cases.

    All arrays are `[B, n]`; importances of slots that are no parts are ignored. `numbers_each` is
    the count of numbers that `compute` holds per case.
    """
    if parts.ndim != 2 or any(values.shape != parts.shape for values in importances):
        shapes = " and ".join(str(list(values.shape)) for values in (*importances, parts))
        raise InputError(f"Importances and parts must both be [cases, slots], not {shapes}.")
    if not all(np.isfinite(values[parts]).all() for values in importances):
        raise InputError("Some importances are NaN or infinite; all must be finite numbers.")
    slices = row_slices(len(parts), cases_at_once(max(1, numbers_each)))
    pieces = [compute(*(values[some] for values in importances), parts[some]) for some in slices]
    return np.concatenate(pieces) if pieces else np.zeros(0)


def check_sizes(sizes: Floats) -> None:
    """Raise if an importance is negative or not finite."""
    if not ((sizes >= 0) & (sizes < np.inf)).all():
        raise InputError(
            "Importances must be finite and not negative; pass magnitudes of signed ones."
        )


def same_parts(first: Explanation, second: Explanation) -> Bools:
    """Return the parts `[B, n]` of two explanations, or raise if their cases differ."""
    if not np.array_equal(first.parts, second.parts):
        raise InputError(
            f"The explanations by '{first.method}' and '{second.method}' are of different cases; "
            "compare explanations of the same batch."
        )
    return first.parts


def mean_over_cases(
    values: Floats, protocol: str, direction: Direction, range: tuple[float, float]
) -> Measure:
    """Return the mean over the cases whose value is not NaN."""
    known = values[~np.isnan(values)]
    if not len(known):
        raise InputError(f"None of the {len(values):,} cases can be measured: {protocol}.")
    return mean_measure(known, protocol, direction, range)


def metrics_table(title: str, rows: Mapping[str, Mapping[str, Any]], names: list[str]) -> Group:
    """Return measures as a run holds them: those of these names, with a row for each seed."""
    table = plain_table(title, "seed", *names, numbers=len(names))
    for row, metrics in rows.items():
        found = (metrics[name]["value"] if name in metrics else None for name in names)
        shown = (NOT_SHOWN if value is None else f"{value:.3f}" for value in found)
        table.add_row(row, *shown)
    first = next(iter(rows.values()))
    return captioned(table, "\n".join(protocol_lines({n: first[n]["protocol"] for n in names})))
