"""Numbers in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from whence.measure import Measure


def percent(share: float) -> str:
    """`0.083` as "8.3 %"; from 10 % on without a decimal."""
    return f"{_hundredths(share)} %"


def points(difference: float) -> str:
    """A difference of shares: `0.03` as "3.0 percentage points"."""
    return f"{_hundredths(difference)} percentage points"


def points_between(measure: Measure) -> str:
    """Its interval: "−5.4 to −0.3"."""
    low, high = measure.interval
    return f"{_hundredths(low)} to {_hundredths(high)}"


def _hundredths(share: float) -> str:
    value = 100 * share
    return signed(value, 0 if abs(value) >= 9.95 or value == 0 else 1)


def signed(number: float, decimals: int = 2) -> str:
    """With a true minus: "−0.11"; what rounds to 0 has none."""
    return f"{number:z.{decimals}f}".replace("-", "−")


def between(measure: Measure) -> str:
    """The interval of a share: "7.6 % to 9.0 %"."""
    low, high = measure.interval
    return f"{percent(low)} to {percent(high)}"


def listed(names: Sequence[str]) -> str:
    """ "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def rounded(measure: Measure, decimals: int = 2) -> str:
    """With the interval: "0.41 (0.39 to 0.43)"."""
    value, low, high = (signed(one, decimals) for one in (measure.value, *measure.interval))
    return f"{value} ({low} to {high})"


def too_few(count: int, enough: int, what: str = "cases") -> str:
    """Why nothing is called clear: "7 cases are too few to call a difference clear; …"."""
    return f"{count} {what} are too few to call a difference clear, which takes {enough}"


def sentence(words: str) -> str:
    """Begun large and ended with a full stop."""
    return f"{words[:1].upper()}{words[1:]}."


def short(number: float) -> str:
    """Whole from 10 on, with thousands set apart; below with three digits."""
    return f"{number:,.0f}" if abs(number) >= 10 else f"{number:.3g}"
