"""Top-heavy agreement: do two explainers agree above all on the most important parts?

μ_log and μ_lin of Baumhauer (2021) are symmetric normalised discounted cumulative gains. With ranks
r from 1, the most important, to n, a part is worth n − r by one ranking, divided by log₂(r + 2) or
by r + 1 of its rank in the other. These are the offsets that the examples there were worked with.
Of rankings that agree more towards the top than further down, μ_lin is the larger.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from whence.explanation import Explanation, Floats
from whence.measure import Measure
from whence.trust.agreement import of_rankings, orders
from whence.trust.cases import Bools, by_case

DECIMALS: Final = 12
"""Kept of μ, so that rounding tells no two rankings apart that are equally alike."""


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
