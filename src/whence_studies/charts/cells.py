"""What a table of a study is, and how a figure stands in one of its cells."""

from __future__ import annotations

import math
from dataclasses import dataclass

from whence_studies.records import Record
from whence_studies.results import AGREES, HIGHER, LOWER
from whence_studies.tables.dataset_statistics import DIFFERS, EQUAL

SIGNS = {AGREES: "=", EQUAL: "=", HIGHER: ">", LOWER: "<", DIFFERS: "≠"}
"""By verdict, or by how it begins."""
ABSENT = "–"
A_COUNT = 1_000
"""From here on, whole numbers that are the same for all seeds are shown as such."""


@dataclass(frozen=True)
class StudyTable:
    """Texts in rows and columns, with what stands above and below them."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    numbers: int = 0
    """How many columns, the last ones, are set to the right."""


def cell_text(record: Record, printed: str | None = None) -> str:
    """The figure with half of its interval, and in brackets what is printed."""
    published = ""
    if printed is not None:
        sign = SIGNS.get(record.verdict.partition(":")[0])
        published = f" ({sign} {printed})" if sign else f" ({printed})"
    return f"{_figure(record)}{published}"


def shown(value: float) -> str:
    """A count or a figure for people."""
    return f"{value:,.4g}" if value % 1 else f"{value:,.0f}"


def _figure(record: Record) -> str:
    if record.value is None:
        return ABSENT
    if record.interval is None:
        return f"{record.value:.3f}" if record.seeds else shown(record.value)
    half = (record.interval[1] - record.interval[0]) / 2
    if not half and record.value >= A_COUNT and record.value.is_integer():
        return f"{record.value:,.0f}"
    decimals = _decimals(half)
    return f"{record.value:.{decimals}f} ± {half:.{decimals}f}"


def _decimals(half: float) -> int:
    """So many that half of an interval has two digits that say something."""
    return min(6, max(0, 1 - math.floor(math.log10(half)))) if half > 0 else 3
