"""Flips: how many important parts must go before the model recommends something else?

Serrano and Smith (2019) count until the first item changes; here also until the first ten do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from whence.errors import InputError
from whence.explanation import Floats
from whence.measure import Measure, mean_measure
from whence.trust.curves import Curves, Ints


@dataclass(frozen=True, eq=False)
class Flips:
    """When a list of recommendations first has another item in it, of `B` cases."""

    steps: Floats
    """`[B]`: after how many deletions; one more than there are parts where it never has, NaN where
    there is none."""
    counts: Ints
    """`[B]`: how many parts each case has."""
    protocol: str

    def never(self) -> float:
        """The share of cases in which all parts can go and the list stays."""
        some = self.counts > 0
        return float((self.steps[some] > self.counts[some]).mean())

    def measure(self) -> Measure:
        """The mean number of deletions; an order that finds what matters needs few."""
        known = self.steps[self.counts > 0]
        return mean_measure(known, self.protocol, "lower is better", (1.0, math.inf))


def flips(curves: Curves, top: int = 1) -> Flips:
    """From the curves of a deletion, for the first item or the set of the first ten.

    A case whose list never changes counts with one deletion more than it has parts, so that hard
    cases cannot make an order look good by being left out.
    """
    if curves.kind != "deletion" or top not in curves.changed:
        known = ", ".join(map(str, curves.changed)) or "none"
        raise InputError(
            f"Flips are counted on deletion curves for the top {known}; these are {curves.kind} "
            f"curves, and the top {top} is asked for."
        )
    changed = curves.changed[top]
    first = np.where(changed.any(axis=1), changed.argmax(axis=1), curves.counts + 1)
    what = "item" if top == 1 else f"{top} items"
    return Flips(
        np.where(curves.counts > 0, first, np.nan),
        curves.counts,
        f"mean over cases of the deletions until the top {what} change, parts by {curves.order}, "
        f"removal {curves.removal}; one more than there are parts if never",
    )
