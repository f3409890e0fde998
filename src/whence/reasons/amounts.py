"""Changes of log-probabilities, shares of models and ranks, written for people."""

from __future__ import annotations

import math
from typing import Final

MOST_TIMES: Final = 1_000.0
"""Larger factors are not told apart."""
NEARLY_ALL: Final = 1 - 1e-9
"""The largest share whose logarithm is taken."""
MAJORITY: Final = 0.5
"""Models agree if more than this share of them do."""
ROUNDING: Final = 1e-5
"""In percent; single precision gives 0.9 as 0.89999998."""


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


def loses(lost: float) -> str:
    """Return what a recommendation loses, as the fall of a log-probability, in words."""
    if lost < 0:
        return f"becomes {more_probable(-lost)}"
    return f"loses {-100 * math.expm1(-lost):.0f} % of its probability"


def percent_lost(share: float) -> str:
    """Return the share of a probability that is lost as a table shows it."""
    return percent(math.log1p(-min(share, NEARLY_ALL)))


def percent_sure(probability: float) -> str:
    """Return a probability in percent, rounded down: 89.9 % is not yet 90 %."""
    if not 0 <= probability <= 1:  # in a document that somebody changed
        return f"{100 * probability:.0f} %"
    return f"{math.floor(100 * probability + ROUNDING)} %"


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
