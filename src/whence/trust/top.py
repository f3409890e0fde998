"""The top: do two explainers name the same few parts as the most important?"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from whence.errors import InputError
from whence.explanation import Explanation, Floats
from whence.measure import Measure
from whence.trust.cases import Bools, by_case, mean_over_cases, same_parts

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
