"""What the recommended lists are like: coverage, novelty, diversity and popularity bias."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy import sparse
from scipy.stats import rankdata

from whence.arrays import Bools, Floats, Ints, Ints32
from whence.contract import PAD
from whence.data.histories import Cases
from whence.data.splits import Split
from whence.memory import cases_at_once, row_slices
from whence.models.item_pairs import chosen_once, row_products

COVERAGE: Final = "coverage"
NOVELTY: Final = "novelty"
DIVERSITY: Final = "diversity"
POPULARITY_BIAS: Final = "popularity bias"
RANGES: Final = {
    COVERAGE: (0.0, 1.0),
    NOVELTY: (0.0, math.inf),
    DIVERSITY: (0.0, 1.0),
    POPULARITY_BIAS: (-1.0, 1.0),
}
"""The range of each measure. None has a direction: random items have the highest first three."""


@dataclass(frozen=True, eq=False)
class Lists:
    """The items that a model recommends for held-out cases, and how to measure them."""

    items: Ints32
    """`[B, k]` unseen items, the best first; a shorter list ends with `PAD`."""
    cases: Cases
    split: Split

    def values(self) -> dict[str, Floats]:
        """Return one value per case for each measure; NaN if the list is too short for it."""
        interactions, chosen = self.split.interactions, self._chosen
        return {
            COVERAGE: coverage_values(self.items, interactions.item_count),
            NOVELTY: mean_in_lists(self_information(chosen), self.items),
            DIVERSITY: diversity_values(self.items, chosen),
            POPULARITY_BIAS: mean_in_lists(self._popularity, self.items)
            - self._popularity[self.cases.targets],
        }

    def protocols(self, top: int) -> dict[str, str]:
        """Return what each measure is, for lists of at most `top` items."""
        item_count = self.split.interactions.item_count
        held_out = len(np.unique(self.cases.targets)) / item_count
        lists = f"the {top} best items that the user has not seen"
        said = {
            COVERAGE: f"share of all {item_count:,} items that are in at least one list (the "
            f"held-out items, one per user, are {100 * held_out:.3g} % of them); jackknife "
            "interval over users",
            NOVELTY: "mean self-information of an item, −log₂ of the share of training users who "
            "chose it, in bits; one user is added to both counts",
            DIVERSITY: "mean distance of two items of a list: 1 − the cosine between the sets of "
            "training users who chose them",
            POPULARITY_BIAS: "popularity percentile of the recommended items, by training events, "
            "minus that of the held-out item; 0 is no bias",
        }
        return {name: f"{lists}; {words}" for name, words in said.items()}

    @cached_property
    def _popularity(self) -> Floats:
        return popularity_percentiles(self.split.item_counts())

    @cached_property
    def _chosen(self) -> sparse.csr_array:
        """The training users and their items `[users, items]`: 1 if chosen, however often."""
        interactions, trained = self.split.interactions, self.split.trained()
        user = np.repeat(np.arange(interactions.user_count), np.diff(interactions.offsets))
        pairs = (user[trained], interactions.items[trained])
        shape = (interactions.user_count, interactions.item_count)
        return chosen_once(*pairs, shape).astype(np.float64)


def popularity_percentiles(counts: Ints) -> Floats:
    """Return the share of items with fewer events `[items]`; equally frequent ones count half."""
    percentiles: Floats = (rankdata(counts) - 0.5) / max(1, len(counts))
    return percentiles


def self_information(chosen: sparse.csr_array) -> Floats:
    """Return −log₂ of the share of users who chose each item, in bits (Zhou et al. 2010).

    One user who chose everything is added, so that items that nobody chose have a finite value.
    """
    users = np.count_nonzero(np.diff(chosen.indptr))
    bits: Floats = np.log2(users + 1) - np.log2(chosen.sum(axis=0) + 1)
    return bits


def mean_in_lists(by_item: Floats, lists: Ints32) -> Floats:
    """Return the mean over the items of each list `[B]`; NaN if a list is empty."""
    there = lists != PAD
    return _divided(np.where(there, by_item[lists], 0.0).sum(axis=1), there.sum(axis=1))


def coverage_values(lists: Ints32, item_count: int) -> Floats:
    """Return `[B]` values whose mean is the share of items that are in at least one list.

    The values differ by how many items each list alone shows, as those of a jackknife do.
    """
    # A bootstrap of the lists would leave out a third of them, so its shares are too small. The
    # variance of a jackknife is never too small on average (Efron & Stein 1981).
    there = lists != PAD
    times = np.bincount(lists[there], minlength=item_count)
    alone = (there & (times[lists] == 1)).sum(axis=1)
    weight = (len(lists) - 1) / item_count
    values: Floats = np.count_nonzero(times) / item_count + weight * (alone - alone.mean())
    return values


def diversity_values(lists: Ints32, chosen: sparse.csr_array) -> Floats:
    """Return the mean of 1 − cosine over the pairs of each list `[B]`; NaN if it has no pair.

    Ziegler et al. (2005) compare items in a taxonomy; here they are compared by the users who chose
    them. The cosine of an item that nobody chose is 0.
    """
    there = lists != PAD
    distinct = np.unique(lists[there])
    column = np.searchsorted(distinct, lists)  # that of PAD is not used
    some = sparse.csr_array(chosen[:, distinct])
    users = some.sum(axis=0)
    some.data = some.data / np.sqrt(users)[some.indices]
    same = (there & (np.append(users, 0)[column] > 0)).sum(axis=1)
    size = there.sum(axis=1)
    cosines = _sum_in_lists(some, column, there) - same
    return (1 - _divided(cosines, size * (size - 1))).clip(0, 1)


def _sum_in_lists(columns: sparse.csr_array, lists: Ints, there: Bools) -> Floats:
    """Return the sum of `columnsᵀ · columns` over all ordered pairs of each list `[B]`.

    Only a slice of the product is held at a time.
    """
    total = np.zeros(len(lists))
    case, slot = np.nonzero(there)
    order = np.argsort(lists[case, slot], kind="stable")
    case, item = case[order], lists[case, slot][order]
    for first, product in row_products(columns):
        product.sort_indices()  # which makes looking up an entry a binary search
        ends = np.searchsorted(item, (first, first + product.shape[0]))
        for some in row_slices(int(ends[1] - ends[0]), cases_at_once(lists.shape[1])):
            of = case[ends[0] : ends[1]][some]
            row = np.broadcast_to(item[ends[0] : ends[1]][some, None] - first, lists[of].shape)
            found = product[row, np.where(there[of], lists[of], 0)].toarray()
            np.add.at(total, of, (found * there[of]).sum(axis=1))
    return total


def _divided(total: Floats, by: Ints) -> Floats:
    """Return the quotients; NaN for a division by 0."""
    found: Floats = np.divide(total, by, out=np.full(len(total), np.nan), where=by > 0)
    return found
