"""Agreement: do two explainers rank the parts of a history alike?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from whence.arrays import Bools, Floats
from whence.errors import InputError
from whence.explanation import Explanation
from whence.measure import Measure, by_case, mean_measure, mean_over_cases, same_parts


def agreement(first: Explanation, second: Explanation, signed: bool = False) -> Measure:
    """How alike two methods rank the parts of the same cases: the mean of Spearman's rho.

    By size, for or against alike; signed, from most in favour to most against, where a method
    without a sign is taken to speak for every part. Histories of fewer than two parts, or where a
    method calls all parts equal, have no ranking.
    """
    return of_rankings(spearman, "Spearman's rho", first, second, signed)


def kendall_agreement(first: Explanation, second: Explanation, signed: bool = False) -> Measure:
    """The same by Kendall's tau-b, which counts how many pairs of parts are in the same order."""
    return of_rankings(kendall, "Kendall's tau-b", first, second, signed)


def of_rankings(
    coefficient: Callable[[Floats, Floats, Bools], Floats],
    name: str,
    first: Explanation,
    second: Explanation,
    signed: bool = False,
) -> Measure:
    """The mean over the same cases of a coefficient from −1 to 1 of two methods' rankings."""
    parts = same_parts(first, second)
    one, two = (
        told.scores if signed and told.signed else told.magnitude() for told in (first, second)
    )
    what = "the parts' signed importances" if signed else "the sizes of the parts' importances"
    protocol = f"mean over histories of {name} between {what}"
    return mean_over_cases(coefficient(one, two, parts), protocol, "neither", (-1.0, 1.0))


def spearman(first: Floats, second: Floats, parts: Bools) -> Floats:
    """`[B]`: rho of each row over its parts, ties sharing their mean rank; NaN where undefined."""
    return by_case(_spearman, parts, first, second, numbers_each=parts.shape[-1] ** 2)


def kendall(first: Floats, second: Floats, parts: Bools) -> Floats:
    """`[B]`: tau-b of each row over its parts; NaN where undefined.

    Pairs in the same order less pairs in the opposite one, over the geometric mean of how many
    pairs either side does not tie.
    """
    return by_case(_kendall, parts, first, second, numbers_each=parts.shape[-1] ** 2)


def centred_ranks(values: Floats, parts: Bools) -> Floats:
    """`[B, n]`: each part's rank among its row's parts less the mean rank; 0 without a part.

    Whoever compares many methods ranks each of them once, and correlates the ranks.
    """
    return by_case(_centred_ranks, parts, values, numbers_each=parts.shape[-1] ** 2)


def correlate(first: Floats, second: Floats) -> Floats:
    """`[B]`: the correlation of centred ranks `[B, n]`; NaN where a row has no ranking."""
    spread = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        rho: Floats = (first * second).sum(axis=1) / spread
    return rho


def _spearman(first: Floats, second: Floats, parts: Bools) -> Floats:
    return correlate(_centred_ranks(first, parts), _centred_ranks(second, parts))


def _centred_ranks(values: Floats, parts: Bools) -> Floats:
    # How many parts lie below minus how many lie above is twice the rank, less the mean rank.
    ranks: Floats = orders(values, parts).sum(axis=2, dtype=np.float64) / 2
    return ranks


def _kendall(first: Floats, second: Floats, parts: Bools) -> Floats:
    one, two = (orders(values, parts) for values in (first, second))
    alike, untied, untied_too = (
        pairs.sum(axis=(1, 2), dtype=np.float64) for pairs in (one * two, np.abs(one), np.abs(two))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        tau: Floats = alike / np.sqrt(untied * untied_too)
    return tau


def orders(values: Floats, parts: Bools) -> npt.NDArray[np.int8]:
    """`[B, n, n]`: 1 where the first of two parts is more important, −1 where less, else 0."""
    both = parts[:, :, None] & parts[:, None, :]
    more = both & (values[:, :, None] > values[:, None, :])
    found: npt.NDArray[np.int8] = more.astype(np.int8) - more.swapaxes(1, 2)
    return found


# The top: do two explainers name the same few parts as the most important?


TOP: Final = 3


def top_agreement(first: Explanation, second: Explanation, k: int = TOP) -> Measure:
    """J_k: how many of the k most important parts two methods share, in the mean over cases.

    Equals count in slot order, as in `Explanation.strongest`. A history of at most k parts counts
    them all, so that no two methods differ there; one without parts is left out.
    """
    parts = same_parts(first, second)
    found = top_jaccard(first.magnitude(), second.magnitude(), parts, k)
    protocol = f"mean over histories of the Jaccard index of the top {k} parts by size"
    return mean_over_cases(found, protocol, "neither", (0.0, 1.0))


def top_jaccard(first: Floats, second: Floats, parts: Bools, k: int = TOP) -> Floats:
    """`[B]`: |A∩B| / |A∪B| of the k largest of each row's parts; NaN where there is no part."""
    if k < 1:
        raise InputError(f"The top is at least one part, not {k}.")
    return by_case(partial(_jaccard, k=k), parts, first, second, numbers_each=parts.shape[-1])


def _jaccard(first: Floats, second: Floats, parts: Bools, k: int) -> Floats:
    count = parts.sum(axis=1).clip(max=k)
    one, two = (largest(values, parts, count[:, None]) for values in (first, second))
    both = (one & two).sum(axis=1)
    with np.errstate(invalid="ignore"):
        index: Floats = both / (2 * count - both)
    return index


def largest(
    values: Floats, parts: Bools, count: npt.NDArray[np.float64] | npt.NDArray[np.int64]
) -> Bools:
    """`[…, n]`: which parts are among the so many largest; equals count in slot order."""
    order = np.argsort(np.where(parts, -values, np.inf), axis=-1, kind="stable")
    top = np.zeros(values.shape, dtype=np.bool_)
    np.put_along_axis(top, order, np.arange(values.shape[-1]) < count, axis=-1)
    return top


# Top-heavy agreement: do two explainers agree above all on the most important parts?


DECIMALS: Final = 12
"""AuditFolder of μ, so that rounding tells no two rankings apart that are equally alike."""


def mu_log_agreement(first: Explanation, second: Explanation) -> Measure:
    """How alike two methods rank the parts of the same cases by size: the mean of μ_log."""
    return of_rankings(mu_log, "μ_log", first, second)


def mu_lin_agreement(first: Explanation, second: Explanation) -> Measure:
    """The same by μ_lin, to which the first ranks are worth still more."""
    return of_rankings(mu_lin, "μ_lin", first, second)


def mu_log(first: Floats, second: Floats, parts: Bools) -> Floats:
    """`[B]`: 1 for the same ranking of a row's parts, −1 for the opposite, 0 on average by chance.

    Ties count as the mean over all their orders, those of either side by themselves, so that only
    rankings without ties reach 1. NaN for fewer than two parts, or where all are equal to one side,
    as in `spearman`.
    """
    return _mu(first, second, parts, lambda rank: np.log2(rank + 2))


def mu_lin(first: Floats, second: Floats, parts: Bools) -> Floats:
    """`[B]`: the same, where a part's worth is divided by its rank and not by the logarithm."""
    return _mu(first, second, parts, lambda rank: rank + 1)


def _mu(first: Floats, second: Floats, parts: Bools, divisor: Callable[[Floats], Floats]) -> Floats:
    rank = np.arange(1.0, parts.shape[-1] + 1)
    discount = 1 / divisor(rank)
    compute = partial(_symmetric, discounts=_sums(discount), weighted=_sums(rank * discount))
    return by_case(compute, parts, first, second, numbers_each=parts.shape[-1] ** 2)


def _symmetric(
    first: Floats, second: Floats, parts: Bools, discounts: Floats, weighted: Floats
) -> Floats:
    """(N-DCG(X, Y) + N-DCG(Y, X)) / 2, from the sums of d(r) and of r·d(r) up to each rank.

    With the worth less its mean, c(r) = (n + 1)/2 − r, the printed N-DCG is Σ c(r_X)·d(r_Y) over
    what it is for equal ranks.
    """
    count = parts.sum(axis=1)
    best = (count + 1) / 2 * discounts[count] - weighted[count]
    (worth, discount), (worth_too, discount_too) = (
        _worth_and_discount(values, parts, discounts) for values in (first, second)
    )
    gain = (worth * discount_too).sum(axis=1) + (worth_too * discount).sum(axis=1)
    ranked = worth.any(axis=1) & worth_too.any(axis=1)
    mu: Floats = np.full(len(parts), np.nan)
    np.divide(gain, 2 * best, out=mu, where=ranked)
    return mu.round(DECIMALS)


def _worth_and_discount(values: Floats, parts: Bools, discounts: Floats) -> tuple[Floats, Floats]:
    """`[B, n]` each: c and d of every part, means over the ranks that it shares with its equals."""
    order = orders(values, parts)
    lead = order.sum(axis=2, dtype=np.int64)  # parts below less parts above
    unequal = np.abs(order).sum(axis=2, dtype=np.int64)
    above = (unequal - lead) // 2
    equal = np.where(parts, parts.sum(axis=1, keepdims=True) - unequal, 1)
    mean = (discounts[above + equal] - discounts[above]) / equal
    return lead / 2, np.where(parts, mean, 0.0)


def _sums(values: Floats) -> Floats:
    """Of none, of the first, of the first two, …"""
    sums: Floats = np.concatenate(([0.0], values.cumsum()))
    return sums


# Signs


SURE = 2.0
"""Standard errors that an importance must exceed for its sign to count."""
PROTOCOL = "mean over histories of the share of parts with the sign of the reference"


def sign_agreement(
    explanation: Explanation, reference: Explanation, weighted: bool = False
) -> Measure:
    """The share of a history's parts that speak for or against as they do in the reference.

    Only parts count whose sign the reference is sure of: an importance of more than `SURE` standard
    errors, or any but 0 where it draws nothing. Weighted, each counts by its size there. A method
    without a sign is taken to speak for every part; a sign of 0 takes no side and is not the same.
    Histories without a part that counts are left out.
    """
    side = np.sign(explanation.scores) if explanation.signed else 1.0
    same = side == np.sign(reference.scores)
    weight = np.where(sure_parts(reference), reference.magnitude() if weighted else 1.0, 0.0)
    total = weight.sum(axis=1)
    counts = total > 0
    share = (weight * same).sum(axis=1)[counts] / total[counts]
    sizes = ", by their size there" if weighted else ""
    return mean_measure(share, f"{PROTOCOL}{sizes}; parts of more than {SURE:g} standard errors")


def sure_parts(reference: Explanation) -> Bools:
    """`[B, n]`: the parts of which it is sure whether they speak for or against."""
    error = 0.0 if reference.error is None else reference.error
    sure: Bools = reference.parts & (reference.magnitude() > SURE * error)
    return sure


# Wilcoxon's signed-rank test: is one number of a case smaller than another of the same case?


@dataclass(frozen=True)
class SignedRank:
    """What the test says of paired values."""

    statistic: float
    """The sum of the ranks of those differences in which the first value is the larger."""
    p: float
    """How probable so small a sum is, were neither side smaller; 0 where no float is so small."""
    log10_p: float
    """Its decimal logarithm, which has no such limit."""
    n: int
    """How many pairs differ."""


def signed_rank(first: Floats, second: Floats) -> SignedRank:
    """One-sided: is the first of each pair the smaller, such as μ_log < μ_lin of the same cases?

    Equal pairs are left out, and so are those that are not both numbers; equal differences share
    their mean rank. p comes from the normal approximation, as SciPy has it by default for more
    than 50 pairs.
    """
    if first.ndim != 1 or first.shape != second.shape:
        raise InputError(
            f"Pairs are two rows of equal length, not {list(first.shape)} and {list(second.shape)}."
        )
    difference = first - second
    difference = difference[(difference != 0) & ~np.isnan(difference)]
    n = len(difference)
    if not n:
        raise InputError("The signed-rank test needs a pair whose values differ.")
    size = np.abs(difference)
    statistic = float(stats.rankdata(size)[difference > 0].sum())
    ties = np.unique(size, return_counts=True)[1].astype(np.float64)
    variance = n * (n + 1) * (2 * n + 1) / 24 - float((ties**3 - ties).sum()) / 48
    z = (statistic - n * (n + 1) / 4) / math.sqrt(variance)
    log10_p = float(stats.norm.logcdf(z)) / math.log(10)
    return SignedRank(statistic, float(stats.norm.cdf(z)), log10_p, n)
