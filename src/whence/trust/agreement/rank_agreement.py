"""Agreement of two explainers: on the ranking of the parts, on the top few, and on the signs.

`spearman`, `kendall`, `mu_log`, `mu_lin` and `top_jaccard` return one number per case. The measures
average them over cases, and `signed_rank` tests whether one number per case is below another.
"""

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
from whence.trust.measures import MEASURES, MeasureSpec


def agreement(first: Explanation, second: Explanation, signed: bool = False) -> Measure:
    """Return the mean over cases of Spearman's rho between two explanations' importances.

    By default magnitudes are compared. With `signed`, parts rank from most in favour to most
    against, and a method without signs counts as in favour of every part. Histories with fewer than
    two parts, or whose parts are all equal to one method, are left out.
    """
    return _mean_of_coefficient(spearman, "Spearman's rho", first, second, signed)


def kendall_agreement(first: Explanation, second: Explanation, signed: bool = False) -> Measure:
    """Return the mean of Kendall's tau-b, which counts pairs of parts in the same order."""
    return _mean_of_coefficient(kendall, "Kendall's tau-b", first, second, signed)


def _mean_of_coefficient(
    coefficient: Callable[[Floats, Floats, Bools], Floats],
    name: str,
    first: Explanation,
    second: Explanation,
    signed: bool = False,
) -> Measure:
    """Return the mean over cases of a coefficient from −1 to 1 between two rankings."""
    parts = same_parts(first, second)
    one, two = (
        said.scores if signed and said.signed else said.magnitude() for said in (first, second)
    )
    what = "the parts' signed importances" if signed else "the sizes of the parts' importances"
    protocol = f"mean over histories of {name} between {what}"
    return mean_over_cases(coefficient(one, two, parts), protocol, "neither", (-1.0, 1.0))


def spearman(first: Floats, second: Floats, parts: Bools) -> Floats:
    """Return rho of each row's parts `[B]`; ties share their mean rank; NaN if undefined."""
    return by_case(_spearman, parts, first, second, numbers_each=parts.shape[-1] ** 2)


def kendall(first: Floats, second: Floats, parts: Bools) -> Floats:
    """Return tau-b of each row's parts `[B]`; NaN if undefined.

    It is the number of pairs in the same order minus pairs in the opposite order, divided by the
    geometric mean of the numbers of untied pairs on either side.
    """
    return by_case(_kendall, parts, first, second, numbers_each=parts.shape[-1] ** 2)


def centred_ranks(values: Floats, parts: Bools) -> Floats:
    """Return each part's rank in its row minus the mean rank `[B, n]`; 0 if there is no part.

    To compare many methods, rank each once and `correlate` the ranks.
    """
    return by_case(_centred_ranks, parts, values, numbers_each=parts.shape[-1] ** 2)


def correlate(first: Floats, second: Floats) -> Floats:
    """Return the correlation of centred ranks `[B, n]` of each row; NaN if it has no ranking."""
    spread = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        rho: Floats = (first * second).sum(axis=1) / spread
    return rho


def _spearman(first: Floats, second: Floats, parts: Bools) -> Floats:
    return correlate(_centred_ranks(first, parts), _centred_ranks(second, parts))


def _centred_ranks(values: Floats, parts: Bools) -> Floats:
    # Parts below minus parts above is twice the difference from the mean rank.
    ranks: Floats = orders(values, parts).sum(axis=2, dtype=np.float64) / 2
    return ranks


def _kendall(first: Floats, second: Floats, parts: Bools) -> Floats:
    one, two = (orders(values, parts) for values in (first, second))
    same_order, untied, untied_too = (
        pairs.sum(axis=(1, 2), dtype=np.float64) for pairs in (one * two, np.abs(one), np.abs(two))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        tau: Floats = same_order / np.sqrt(untied * untied_too)
    return tau


def orders(values: Floats, parts: Bools) -> npt.NDArray[np.int8]:
    """Return `[B, n, n]`: 1 if the first of two parts is more important, −1 if less, else 0."""
    both = parts[:, :, None] & parts[:, None, :]
    more = both & (values[:, :, None] > values[:, None, :])
    found: npt.NDArray[np.int8] = more.astype(np.int8) - more.swapaxes(1, 2)
    return found


def _declare(name: str, compute: Callable[..., Measure], question: str, citation: str) -> None:
    """Declare a measure of how alike two explainers rank the parts."""
    MEASURES.add(
        name,
        MeasureSpec(
            compute,
            question,
            "neither",
            (-1.0, 1.0),
            lambda small: small.two,
            citation,
            symmetric=True,
        ),
    )


_declare("agreement", agreement, "Do two explainers rank the parts alike?", "Spearman (1904)")
_declare(
    "agreement-signed",
    partial(agreement, signed=True),
    "Do two explainers rank the parts alike, from most in favour to most against?",
    "Spearman (1904)",
)
_declare(
    "agreement-kendall",
    kendall_agreement,
    "How many more pairs of parts are in the same order than in the opposite one?",
    "Kendall (1938)",
)


# The most important parts

TOP: Final = 3


def top_agreement(first: Explanation, second: Explanation, k: int = TOP) -> Measure:
    """Return the mean Jaccard index of the k most important parts by two methods.

    Equal parts count in slot order, as in `Explanation.strongest`. In a history of at most k parts
    all methods agree. Histories without parts are left out.
    """
    parts = same_parts(first, second)
    found = top_jaccard(first.magnitude(), second.magnitude(), parts, k)
    protocol = f"mean over histories of the Jaccard index of the top {k} parts by size"
    return mean_over_cases(found, protocol, "neither", (0.0, 1.0))


def top_jaccard(first: Floats, second: Floats, parts: Bools, k: int = TOP) -> Floats:
    """Return |A∩B| / |A∪B| of the k largest parts of each row `[B]`; NaN without parts."""
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}.")
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
    """Return which parts `[…, n]` are among the `count` largest; ties go by slot order."""
    order = np.argsort(np.where(parts, -values, np.inf), axis=-1, kind="stable")
    top = np.zeros(values.shape, dtype=np.bool_)
    np.put_along_axis(top, order, np.arange(values.shape[-1]) < count, axis=-1)
    return top


MEASURES.add(
    "agreement-top",
    MeasureSpec(
        top_agreement,
        "Do two explainers name the same three parts as the most important?",
        "neither",
        (0.0, 1.0),
        lambda small: small.two,
        "Jaccard (1901)",
        symmetric=True,
    ),
)


# Rankings weighted towards the top

DECIMALS: Final = 12
"""Decimals to which μ is rounded, so that rounding errors do not separate equal rankings."""


def mu_log_agreement(first: Explanation, second: Explanation) -> Measure:
    """Return the mean over cases of μ_log between the magnitudes of two explanations."""
    return _mean_of_coefficient(mu_log, "μ_log", first, second)


def mu_lin_agreement(first: Explanation, second: Explanation) -> Measure:
    """Return the mean of μ_lin, which weighs the first ranks even more."""
    return _mean_of_coefficient(mu_lin, "μ_lin", first, second)


def mu_log(first: Floats, second: Floats, parts: Bools) -> Floats:
    """Return μ_log `[B]`: 1 for the same ranking, −1 for the opposite, 0 on average at random.

    A tie counts as the mean over all orders of the tied parts, so only rankings without ties reach
    1. NaN for fewer than two parts, or if all parts are equal on one side, as in `spearman`.
    """
    return _mu(first, second, parts, lambda rank: np.log2(rank + 2))


def mu_lin(first: Floats, second: Floats, parts: Bools) -> Floats:
    """Return μ_lin `[B]`, which discounts by the rank instead of its logarithm."""
    return _mu(first, second, parts, lambda rank: rank + 1)


def _mu(first: Floats, second: Floats, parts: Bools, divisor: Callable[[Floats], Floats]) -> Floats:
    rank = np.arange(1.0, parts.shape[-1] + 1)
    discount = 1 / divisor(rank)
    compute = partial(_symmetric, discounts=_sums(discount), weighted=_sums(rank * discount))
    return by_case(compute, parts, first, second, numbers_each=parts.shape[-1] ** 2)


def _symmetric(
    first: Floats, second: Floats, parts: Bools, discounts: Floats, weighted: Floats
) -> Floats:
    """Return (N-DCG(X, Y) + N-DCG(Y, X)) / 2, from the sums of d(r) and of r·d(r) up to each rank.

    With the centred relevance c(r) = (n + 1)/2 − r, N-DCG is Σ c(r_X)·d(r_Y) divided by its value
    for equal ranks.
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
    """Return c and d of every part `[B, n]`, averaged over the ranks that tied parts share."""
    order = orders(values, parts)
    lead = order.sum(axis=2, dtype=np.int64)  # parts below less parts above
    unequal = np.abs(order).sum(axis=2, dtype=np.int64)
    above = (unequal - lead) // 2
    equal = np.where(parts, parts.sum(axis=1, keepdims=True) - unequal, 1)
    mean = (discounts[above + equal] - discounts[above]) / equal
    return lead / 2, np.where(parts, mean, 0.0)


def _sums(values: Floats) -> Floats:
    """Return the sums of the first 0, 1, 2, … values."""
    sums: Floats = np.concatenate(([0.0], values.cumsum()))
    return sums


_declare(
    "agreement-mu-log",
    mu_log_agreement,
    "Do two explainers rank the parts alike, with more weight on the most important?",
    "Baumhauer (2021)",
)
_declare(
    "agreement-mu-lin",
    mu_lin_agreement,
    "Do two explainers rank the parts alike, with even more weight on the most important?",
    "Baumhauer (2021)",
)


# Signs

SURE: Final = 2.0
"""Standard errors that an importance must exceed for its sign to count."""
SIGN_PROTOCOL: Final = "mean over histories of the share of parts with the sign of the reference"


def sign_agreement(
    explanation: Explanation, reference: Explanation, weighted: bool = False
) -> Measure:
    """Return the mean share of a history's parts that have the same sign as in the reference.

    A part counts if its importance in the reference exceeds `SURE` standard errors, or is not 0 if
    the reference has no errors. With `weighted`, each part counts by its magnitude there. A method
    without signs counts as in favour of every part; 0 agrees with no sign. Histories without parts
    that count are left out.
    """
    side = np.sign(explanation.scores) if explanation.signed else 1.0
    same = side == np.sign(reference.scores)
    weight = np.where(sure_parts(reference), reference.magnitude() if weighted else 1.0, 0.0)
    total = weight.sum(axis=1)
    counts = total > 0
    share = (weight * same).sum(axis=1)[counts] / total[counts]
    sizes = ", by their size there" if weighted else ""
    return mean_measure(
        share, f"{SIGN_PROTOCOL}{sizes}; parts of more than {SURE:g} standard errors"
    )


def sure_parts(reference: Explanation) -> Bools:
    """Return the parts `[B, n]` whose sign is beyond doubt."""
    error = 0.0 if reference.error is None else reference.error
    sure: Bools = reference.parts & (reference.magnitude() > SURE * error)
    return sure


MEASURES.add(
    "sign-agreement",
    MeasureSpec(
        sign_agreement,
        "Do parts have the same sign as by a trusted explainer?",
        "higher is better",
        (0.0, 1.0),
        lambda small: (small.signed, small.shapley),
    ),
)
MEASURES.add(
    "sign-agreement-weighted",
    MeasureSpec(
        partial(sign_agreement, weighted=True),
        "Do they, with more weight on parts that matter to the trusted explainer?",
        "higher is better",
        (0.0, 1.0),
        lambda small: (small.signed, small.shapley),
    ),
)


# Wilcoxon's signed-rank test


@dataclass(frozen=True)
class SignedRank:
    """The result of the test for paired values."""

    statistic: float
    """The sum of the ranks of the differences in which the first value is larger."""
    p: float
    """The probability of so small a sum if neither side is smaller; 0 if it underflows."""
    log10_p: float
    """Its decimal logarithm, which does not underflow."""
    n: int
    """The number of pairs that differ."""


def signed_rank(first: Floats, second: Floats) -> SignedRank:
    """Test one-sided whether the first value of each pair is smaller, such as μ_log < μ_lin.

    Pairs that are equal or contain NaN are left out; equal differences share their mean rank. p is
    the normal approximation, SciPy's default for more than 50 pairs.
    """
    if first.ndim != 1 or first.shape != second.shape:
        raise InputError(
            "Paired values must be two arrays [n] of equal length, not "
            f"{list(first.shape)} and {list(second.shape)}."
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
