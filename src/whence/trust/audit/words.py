"""Numbers in sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from whence.measure import NOT_SHOWN, Measure


def percent(share: float) -> str:
    """Return `0.083` as "8.3 %"; from 10 % on without a decimal."""
    return f"{_hundredths(share)} %"


def points(difference: float) -> str:
    """Return a difference of shares: `0.03` as "3.0 percentage points"."""
    return f"{_hundredths(difference)} percentage points"


def points_between(measure: Measure) -> str:
    """Return the interval in percentage points: "−5.4 to −0.3"."""
    return _between(measure, _hundredths)


def between(measure: Measure) -> str:
    """Return the interval of a share: "7.6 % to 9.0 %"."""
    return _between(measure, percent)


def numbers_between(measure: Measure, decimals: int = 2) -> str:
    """Return the interval of any number: "0.39 to 0.43"."""
    return _between(measure, lambda end: signed(end, decimals))


def rounded(measure: Measure, decimals: int = 2) -> str:
    """Return the value with its interval: "0.41 (0.39 to 0.43)"."""
    return f"{signed(measure.value, decimals)} ({numbers_between(measure, decimals)})"


def _between(measure: Measure, write: Callable[[float], str]) -> str:
    low, high = measure.interval
    return NOT_SHOWN if math.isnan(low) else f"{write(low)} to {write(high)}"


def _hundredths(share: float) -> str:
    value = 100 * share
    return signed(value, 0 if abs(value) >= 9.95 or value == 0 else 1)


def signed(number: float, decimals: int = 2) -> str:
    """Return a number with a true minus sign: "−0.11"; what rounds to 0 has no sign."""
    return f"{number:z.{decimals}f}".replace("-", "−")


def listed(names: Sequence[str]) -> str:
    """Return names as in a sentence: "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def too_few(count: int, enough: int, what: str = "cases") -> str:
    """Return why no difference is called clear."""
    return f"{count} {what} are too few to call a difference clear; at least {enough} are needed"


def sentence(words: str) -> str:
    """Return the words with a capital letter and a full stop."""
    return f"{words[:1].upper()}{words[1:]}."


def short(number: float) -> str:
    """Return a number with no decimals from 10 on, and with three digits below."""
    return f"{number:,.0f}" if abs(number) >= 10 else f"{number:.3g}"
