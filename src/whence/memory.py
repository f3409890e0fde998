"""Large work cut into slices, so that memory stays bounded whatever the size of the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

ROWS_AT_ONCE: Final = 4096
"""How many altered inputs a model sees at a time when many must be scored."""
SCORES_AT_ONCE: Final = 20_000_000
"""How many numbers are held at a time where every row is scored against the whole catalog."""


def row_slices(rows: int, at_once: int = ROWS_AT_ONCE) -> Iterator[slice]:
    """Consecutive slices of at most `at_once` rows."""
    return (slice(start, start + at_once) for start in range(0, rows, at_once))


def cases_at_once(item_count: int) -> int:
    """How many cases may be scored against the whole catalog at a time."""
    return max(1, SCORES_AT_ONCE // item_count)
