"""Binned: the mean of one number of every case, by bins of another such as confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from whence.errors import InputError
from whence.explanation import Floats
from whence.trust.bins import Bins, means
from whence.trust.predictions import Ints
from whence.trust.whole_users import added_by_user, intervals_over_users

SHARES: Final = (5, 25, 50, 75, 95)
"""Of the cases of a bin, in per cent."""
QUANTILES: Final = ("least", "lower", "median", "upper", "most")
"""What these are called."""


@dataclass(frozen=True, eq=False)
class Binned:
    """The cases in `K` bins; an empty one has NaN for all but its counts."""

    edges: Floats
    """`[K + 1]`: a bin has its lower edge, and the last one both."""
    count: Ints
    """`[K]`: how many cases."""
    users: Ints
    """`[K]`: how many users they are of."""
    place: Floats
    """`[K]`: the mean of what they are binned by."""
    mean: Floats
    """`[K]`: over the cases."""
    interval: Floats
    """`[K, 2]`: 95 %, of the bootstrap over users; NaN unless there are two of them."""
    quantiles: Floats
    """`[K, 5]`: 5, 25, 50, 75 and 95 % of the cases have no more."""
    protocol: str

    def rows(self) -> list[dict[str, float | None]]:
        """One for every bin that has cases, to draw; no interval where they are of one user."""
        columns = {
            "from": self.edges[:-1],
            "to": self.edges[1:],
            "place": self.place,
            "value": self.mean,
            "low": self.interval[:, 0],
            "high": self.interval[:, 1],
            **dict(zip(QUANTILES, self.quantiles.T, strict=True)),
            "cases": self.count,
        }
        some = self.count > 0
        numbers = zip(*(column[some].tolist() for column in columns.values()), strict=True)
        return [
            {name: None if math.isnan(x) else x for name, x in zip(columns, row, strict=True)}
            for row in numbers
        ]


def binned(
    values: Floats,
    by: Floats,
    bins: Bins,
    users: Ints | None = None,
    *,
    protocol: str,
    seed: int = 0,
) -> Binned:
    """The mean of the values `[N]` in every bin of `by` `[N]`; a case without a value is left out.

    Whole users `[N]` are drawn for the interval, as the cases of one are not independent; where
    they are not said, every case is a user of its own. The bins are those of all cases, with a
    value or without.
    """
    users = np.arange(len(values)) if users is None else users
    _check(values, by, users)
    edges = bins.edges(np.sort(by[np.isfinite(by)].astype(np.float64)))
    known = ~np.isnan(values)
    values, by = values[known].astype(np.float64), by[known].astype(np.float64)
    different, user = np.unique(users[known], return_inverse=True)
    table = len(different), len(edges) - 1  # a row for every user, a column for every bin
    bin_of = np.searchsorted(edges[1:-1], by, side="right")
    sums, counts = (added_by_user(user, bin_of, table, one) for one in (values, None))
    count = counts.sum(axis=0).astype(np.int64)
    return Binned(
        edges,
        count,
        np.count_nonzero(counts, axis=0),
        means(np.bincount(bin_of, by, table[1]).astype(np.float64), count),
        means(sums.sum(axis=0), count),
        intervals_over_users(sums, counts, seed),
        _quantiles(values, bin_of, count),
        f"{protocol}; mean over {len(values):,} cases of {len(different):,} users",
    )


def _check(values: Floats, by: Floats, users: Ints) -> None:
    if values.ndim != 1 or values.shape != by.shape or values.shape != users.shape:
        shapes = " and ".join(str(list(one.shape)) for one in (values, by, users))
        raise InputError(f"Every case has a value, a place and a user, not shapes {shapes}.")
    if not np.isfinite(by[~np.isnan(values)]).all():
        raise InputError("What cases are binned by is finite, which is not so for all of these.")


def _quantiles(values: Floats, bin_of: Ints, count: Ints) -> Floats:
    """`[K, 5]`."""
    in_bins = np.split(values[np.argsort(bin_of, kind="stable")], np.cumsum(count)[:-1])
    none = np.full(len(SHARES), np.nan)
    return np.stack([np.percentile(some, SHARES) if len(some) else none for some in in_bins])
