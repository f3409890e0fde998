"""Popularity: do reasons name what everybody chooses, more than the histories they are of?"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
from scipy.stats import rankdata

from whence.data.histories import Ints
from whence.errors import InputError
from whence.explanation import Explanation, Floats
from whence.measure import Measure
from whence.trust.agreement import kendall, orders
from whence.trust.cases import Bools, by_case, mean_over_cases

TOP: Final = 3


def popularity_bias(explanation: Explanation, items: Ints, counts: Ints, k: int = TOP) -> Measure:
    """How much more popular the k parts named first are than all parts: 0 is no bias.

    `items` `[B, n]` stand in the slots of the explanation, and `counts` are every item's events in
    training, whose percentiles are compared. First is what is most in favour; equals share the
    places that are left. A history of at most k parts names them all and is left out.
    """
    if k < 1:
        raise InputError(f"The top is at least one part, not {k}.")
    popularity = _popularity(explanation, items, counts)
    found = by_case(
        partial(_lead, k=k),
        explanation.parts,
        explanation.scores,
        popularity,
        numbers_each=items.shape[-1] ** 2,
    )
    protocol = (
        f"mean over histories of more than {k} parts of the popularity percentile of the top {k} "
        "parts less that of all parts"
    )
    return mean_over_cases(found, protocol, "neither", (-1.0, 1.0))


def popularity_correlation(explanation: Explanation, items: Ints, counts: Ints) -> Measure:
    """Whether importance goes with popularity: the mean of Kendall's tau-b within a history.

    Importances count from most in favour to most against. Histories of fewer than two parts, or
    whose parts are all equal in one of the two, have no ranking.
    """
    popularity = _popularity(explanation, items, counts)
    found = kendall(explanation.scores, popularity, explanation.parts)
    protocol = "mean over histories of Kendall's tau-b between the parts' importance and popularity"
    return mean_over_cases(found, protocol, "neither", (-1.0, 1.0))


def popularity_percentiles(counts: Ints) -> Floats:
    """`[items]`: the share of all items with fewer events, those with as many counting half."""
    percentiles: Floats = (rankdata(counts) - 0.5) / max(1, len(counts))
    return percentiles


def _popularity(explanation: Explanation, items: Ints, counts: Ints) -> Floats:
    """`[B, n]`: the percentile of the item in each slot, 0 where there is no part."""
    if items.shape != explanation.parts.shape:
        raise InputError(
            f"Items of {list(items.shape)} cases by slots are not those of an explanation of "
            f"{list(explanation.parts.shape)}."
        )
    named = items[explanation.parts]
    if len(named) and not 0 <= named.min() <= named.max() < len(counts):
        raise InputError(
            f"Popularity is known of items 0 to {len(counts) - 1}, and the explanation names "
            f"items {named.min()} to {named.max()}."
        )
    popularity = np.zeros(items.shape)
    popularity[explanation.parts] = popularity_percentiles(counts)[named]
    return popularity


def _lead(scores: Floats, popularity: Floats, parts: Bools, k: int) -> Floats:
    """`[B]`: the mean popularity of the top less that of all; NaN where all are the top."""
    top, size = shares_of_top(scores, parts, k), parts.sum(axis=1)
    with np.errstate(invalid="ignore"):
        lead: Floats = (top * popularity).sum(axis=1) / k - popularity.sum(axis=1) / size
    return np.where(size > k, lead, np.nan)


def shares_of_top(values: Floats, parts: Bools, k: int) -> Floats:
    """`[B, n]`: 1 for those of the k largest, 0 for others; equals share the places left."""
    compared = orders(values, parts)
    above = (compared < 0).sum(axis=2)
    equal = (compared == 0).sum(axis=2) - (~parts).sum(axis=1, keepdims=True)
    shares: Floats = np.where(parts, (k - above).clip(0, None) / np.maximum(equal, 1), 0.0)
    return shares.clip(max=1.0)
