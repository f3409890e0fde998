"""Agreement: do two explainers rank the parts of a history alike?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from whence.explanation import Explanation, Floats
from whence.measure import Measure, mean_measure
from whence.memory import cases_at_once, row_slices

Bools = npt.NDArray[np.bool_]

PROTOCOL = "mean over histories of Spearman's rho between the sizes of the parts' importances"


def agreement(first: Explanation, second: Explanation) -> Measure:
    """How alike two methods rank the parts of the same cases by size, for or against alike.

    Histories of fewer than two parts, or where a method calls all parts equal, have no ranking.
    """
    rho = spearman(first.magnitude(), second.magnitude(), first.parts)
    ranked = rho[~np.isnan(rho)]
    return mean_measure(ranked, PROTOCOL, direction="neither", range=(-1.0, 1.0))


def spearman(first: Floats, second: Floats, parts: Bools) -> Floats:
    """`[B]`: rho of each row over its parts, ties sharing their mean rank; NaN where undefined."""
    rows, slots = parts.shape
    slices = row_slices(rows, cases_at_once(slots * slots))
    pieces = [_spearman(first[some], second[some], parts[some]) for some in slices]
    return np.concatenate(pieces) if pieces else np.zeros(0)


def _spearman(first: Floats, second: Floats, parts: Bools) -> Floats:
    one, two = (_centred_ranks(values, parts) for values in (first, second))
    spread = np.sqrt((one**2).sum(axis=1) * (two**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        rho: Floats = (one * two).sum(axis=1) / spread
    return rho


def _centred_ranks(values: Floats, parts: Bools) -> Floats:
    """`[B, n]`: each part's rank among the row's parts, less the mean rank; 0 without a part.

    How many parts lie below minus how many lie above is twice that.
    """
    both = parts[:, :, None] & parts[:, None, :]
    order = np.sign(values[:, :, None] - values[:, None, :])
    ranks: Floats = np.where(both, order, 0.0).sum(axis=2) / 2
    return ranks
