"""Wilcoxon's signed-rank test: is one number of a case smaller than another of the same case?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from whence.errors import InputError
from whence.explanation import Floats


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
