"""How a claim is judged: by the 95 % interval of a difference between the same seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from whence.measure import mean_over_seeds
from whence_studies.declared_claims import Claim, Expectation

BANDS: dict[Expectation, tuple[float, float]] = {
    "weak": (-math.inf, 0.3),
    "moderate": (0.3, 0.7),
    "strong": (0.7, math.inf),
}
"""How Baumhauer (2021) names correlations: from the first bound to below the second."""
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
PRINT_OUTSIDE = "print outside the band"
"""The verdict on a claim that the published value itself fails, so that no band can judge it."""
NOT_COMPARABLE = "not comparable"
"""The verdict on a claim about a variant that does not measure what the paper printed."""
VERDICTS = (HOLDS, UNDECIDED, FAILS, PRINT_OUTSIDE, NOT_COMPARABLE)


class Estimate(NamedTuple):
    """The mean over seeds, with spread and interval if there are enough seeds."""

    value: float | None = None
    spread: float | None = None
    """Standard deviation over seeds."""
    interval: tuple[float, float] | None = None

    def times(self, factor: float) -> Estimate:
        """Return the estimate of the values multiplied by a positive factor."""
        value, spread, interval = self
        return Estimate(
            None if value is None else factor * value,
            None if spread is None else factor * spread,
            None if interval is None else (factor * interval[0], factor * interval[1]),
        )


class Judgement(NamedTuple):
    """The verdict on a claim, and what it would be if our thresholds were others."""

    verdict: str
    at_half: str | None = None
    """With half of our limit and margin; nothing if there are none."""
    at_double: str | None = None


def over_seeds(values: Sequence[float]) -> Estimate:
    """Return the mean with its t-interval; one seed has no interval."""
    if len(values) < 2:
        return Estimate(value=next(iter(values), None))
    mean = mean_over_seeds(values)
    return Estimate(mean.value, mean.spread, mean.interval)


def compare_sides(claim: Claim, of: Sequence[float], than: Sequence[float]) -> Estimate:
    """Return what a claim compares, from one value per seed on both sides."""
    if claim.expect == "spread lower":
        return spread_ratio(of, than)
    return over_seeds([one - other for one, other in zip(of, than, strict=True)])


def welch_difference(of: tuple[float, float, int], than: tuple[float, float, int]) -> Estimate:
    """Return the difference of two unpaired means by Welch (1947).

    Each side is a mean, its spread and its number of seeds.
    """
    errors = [spread**2 / seeds for _, spread, seeds in (of, than)]
    value, error = of[0] - than[0], sum(errors) ** 0.5
    if not error:
        return Estimate(value, None, (value, value))
    free = sum(errors) ** 2 / sum(
        one**2 / (seeds - 1) for one, (_, _, seeds) in zip(errors, (of, than), strict=True)
    )
    reach = float(stats.t.ppf(0.975, free)) * error
    return Estimate(value, None, (value - reach, value + reach))


OVER_SEEDS, OVER_USERS = "t-interval", "interval over users"
"""The intervals of means over seeds."""
BOOTSTRAP = "bootstrap interval"
"""That of a figure of all seeds together."""


def claim_protocol(claim: Claim, paired: bool = True, interval: str = OVER_SEEDS) -> str:
    """Return what is compared, in words; `interval` is what a single side has."""
    mean = "" if interval == BOOTSTRAP else "mean over seeds of "
    beyond = f" by more than {claim.margin:g}" if claim.margin else ""
    alone = f"{mean}“{str(claim.of) or claim.column}”, 95 % {interval}"
    if claim.expect in BANDS:
        return f"{alone}; expected {claim.expect} ({_band_text(BANDS[claim.expect])})"
    if claim.than is None:
        return f"{alone}; expected {claim.expect} than {claim.limit:g}{beyond}"
    if claim.expect == "spread lower":
        return (
            f"standard deviation over seeds of “{claim.of}” divided by that of “{claim.than}”, "
            "same seeds; 95 % interval of Pitman and Morgan; expected below 1"
        )
    pairing = "paired by seed, 95 %" if paired else "means over seeds, Welch's 95 %"
    return (
        f"“{claim.of}” minus “{claim.than}”, {pairing} t-interval; expected {claim.expect}{beyond}"
    )


def _band_text(band: tuple[float, float]) -> str:
    low, high = band
    if high == math.inf:
        return f"{low:g} or more"
    return f"below {high:g}" if low == -math.inf else f"{low:g} to below {high:g}"


def spread_ratio(of: Sequence[float], than: Sequence[float]) -> Estimate:
    """Return the ratio of standard deviations, with the interval of Pitman and Morgan (1939).

    The interval is exact for few pairs from a normal distribution, and it accounts for values of
    the same seed going together. A bootstrap of ten seeds would be far too narrow. The interval
    holds the ratios at which the sum and the difference of the scaled values are not clearly
    correlated.
    """
    if len(of) < 3 or 0.0 in (np.ptp(of), np.ptp(than)):
        return Estimate()
    free = len(of) - 2
    ratio = float(np.std(of, ddof=1) / np.std(than, ddof=1))
    unexplained = max(0.0, 1 - float(np.corrcoef(of, than)[0, 1]) ** 2)
    reach = 1 + 2 * unexplained * float(stats.t.ppf(0.975, free)) ** 2 / free
    widest = reach + (reach**2 - 1) ** 0.5
    return Estimate(ratio, None, (ratio / widest**0.5, ratio * widest**0.5))


def claim_verdict(claim: Claim, interval: tuple[float, float] | None) -> str:
    """Return whether the claim holds; it is undecided unless the whole interval is on one side."""
    if interval is None:
        return UNDECIDED
    if claim.expect in BANDS:
        return _within(interval, BANDS[claim.expect])
    low, high = (bound - claim.limit for bound in interval)
    margin = claim.margin
    match claim.expect:
        case "higher":
            holds, fails = low > margin, high <= margin
        case "not higher":
            holds, fails = high <= margin, low > margin
        case "lower":
            holds, fails = high < -margin, low >= -margin
        case "not lower":
            holds, fails = low >= -margin, high < -margin
        case "spread lower":
            holds, fails = high < 1 - margin, low >= 1 - margin
    return HOLDS if holds else FAILS if fails else UNDECIDED


def judge_claim(
    claim: Claim, interval: tuple[float, float] | None, printed: str | None = None
) -> Judgement:
    """Return the verdict with its sensitivity; `printed` is the published value of its one side."""
    if printed is not None and _fails_own_band(claim, printed):
        return Judgement(PRINT_OUTSIDE)
    verdict = claim_verdict(claim, interval)
    if not claim.own_thresholds:
        return Judgement(verdict)
    half, double = (claim.with_own_thresholds(factor) for factor in (0.5, 2.0))
    return Judgement(verdict, claim_verdict(half, interval), claim_verdict(double, interval))


def _fails_own_band(claim: Claim, printed: str) -> bool:
    """Return whether a published value is outside the band that names it, however rounded."""
    if claim.expect not in BANDS:
        return False
    value, reach = float(printed), half_last_digit(printed)
    return _within((value - reach, value + reach), BANDS[claim.expect]) == FAILS


def half_last_digit(printed: str) -> float:
    """Return half a unit of the last published digit."""
    return 0.5 * 10.0 ** -len(printed.partition(".")[2])


def _within(interval: tuple[float, float], band: tuple[float, float]) -> str:
    if interval[1] < band[0] or interval[0] >= band[1]:
        return FAILS
    return HOLDS if interval[0] >= band[0] and interval[1] < band[1] else UNDECIDED
