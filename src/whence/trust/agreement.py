"""Agreement: do two explainers rank the parts of a history alike?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from whence.explanation import Explanation, Floats
from whence.measure import Measure
from whence.trust.cases import Bools, by_case, mean_over_cases, same_parts


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
