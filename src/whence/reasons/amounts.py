"""Changes of log-probabilities, shares of models and ranks, written for people."""

from __future__ import annotations

import math
from typing import Final

MOST_TIMES: Final = 1_000.0
"""Larger factors are not told apart."""


def factor_of(change: float) -> float:
    """Return what a probability is multiplied with, from the change of its logarithm."""
    return math.exp(min(change, 2 * math.log(MOST_TIMES)))  # far more would be infinite


def times(change: float) -> str:
    """Return the factor in words."""
    factor = factor_of(change)
    if factor >= MOST_TIMES:
        return f"over {MOST_TIMES:,.0f} times"
    return f"{factor:.1f} times" if factor < 10 else f"{factor:.0f} times"


def more_probable(gained: float) -> str:
    """Return the gain of a log-probability in words."""
    if factor_of(gained) < 2:
        return f"{100 * math.expm1(gained):.0f} % more probable"
    return f"{times(gained)} as probable"


def percent(change: float) -> str:
    """Return the change of a log-probability as a table shows it."""
    if factor_of(change) >= 2:
        return times(change)
    shown = f"{100 * math.expm1(change):+.0f} %"
    return "0 %" if shown[1:] == "0 %" else shown.replace("-", "−")


def share_of(share: float, models: int) -> str:
    """Return how many of the models a share is."""
    return f"{share * models:.0f} of {models}"


def before_and_after(before: int, after: int, in_history: bool) -> str:
    """Return a rank before and after; an item of the history has none."""
    return "in the history" if in_history else f"{before:,} → {after:,}"
