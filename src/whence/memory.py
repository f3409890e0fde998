"""Large work cut into slices, so that memory stays bounded whatever the size of the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

ROWS_AT_ONCE: Final = 4096
"""How many altered inputs a model sees at a time when many must be scored."""
SCORES_AT_ONCE: Final = 4_000_000
"""How many numbers are held at a time where a case needs many, such as every item's score.

Few enough to stay near the processor while they are ranked.
"""


def row_slices(rows: int, at_once: int = ROWS_AT_ONCE) -> Iterator[slice]:
    """Consecutive slices of at most `at_once` rows."""
    return (slice(start, start + at_once) for start in range(0, rows, at_once))


def cases_at_once(numbers_each: int) -> int:
    """How many cases fit at a time, if each needs so many numbers: a score for every item, say."""
    return max(1, SCORES_AT_ONCE // numbers_each)
