"""A table of a study, the text of a value in one of its cells, and why values are absent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from whence_studies.records import Record
from whence_studies.results import AGREES, HIGHER, LOWER
from whence_studies.study import Study
from whence_studies.tables.dataset_statistics import DIFFERS, EQUAL

SIGNS = {AGREES: "=", EQUAL: "=", HIGHER: ">", LOWER: "<", DIFFERS: "≠"}
"""By verdict, or by the part of a verdict before a colon."""
ABSENT = "–"
SMALLEST_COUNT = 1_000
"""Whole numbers from here on that are equal for all seeds are shown as counts."""


class MeasuredOn(NamedTuple):
    """How the values of a table were measured."""

    sizes: str
    """How many cases of each dataset, and how many seeds."""
    protocol: str


@dataclass(frozen=True)
class StudyTable:
    """Texts in rows and columns, with a title above and notes below."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    legend: str = ""
    """How to read a cell; a page says it once."""
    notes: tuple[str, ...] = ()
    """What applies to this table alone."""
    measured: tuple[MeasuredOn, ...] = ()
    numbers: int = 0
    """How many columns, counted from the right, are right-aligned."""


def cell_text(record: Record, published: str | None = None) -> str:
    """Return the value ± half of its interval, followed by the published value in brackets."""
    bracket = ""
    if published is not None:
        sign = SIGNS.get(record.verdict.partition(":")[0])
        bracket = f" ({sign} {published})" if sign else f" ({published})"
    return f"{_value_text(record)}{bracket}"


def number_text(value: float) -> str:
    """Return a count or a measured number for people."""
    return f"{value:,.4g}" if value % 1 else f"{value:,.0f}"


def _value_text(record: Record) -> str:
    if record.value is None:
        return ABSENT
    if record.interval is None:
        return f"{record.value:.3f}" if record.seeds else number_text(record.value)
    half = (record.interval[1] - record.interval[0]) / 2
    if not half and record.value >= SMALLEST_COUNT and record.value.is_integer():
        return f"{record.value:,.0f}"
    decimals = _decimals(half)
    return f"{record.value:.{decimals}f} ± {half:.{decimals}f}"


def _decimals(half: float) -> int:
    """Return how many decimals give half of an interval two significant digits."""
    return min(6, max(0, 1 - math.floor(math.log10(half)))) if half > 0 else 3


def model_headings(study: Study) -> tuple[str, ...]:
    """Return the headings of a cell's place, with the model if the study has several."""
    return ("dataset",) if len(study.models) == 1 else ("model", "dataset")


def absences(study: Study, records: Sequence[Record]) -> tuple[str, ...]:
    """Return why values are absent, with the datasets that lack them."""
    datasets = {dataset.data: name for name, dataset in study.datasets.items()}
    why: dict[str, dict[str, None]] = {}
    for record in records:
        if record.value is None and not record.seeds:
            name = datasets.get(record.dataset, record.dataset)
            why.setdefault(record.verdict, {})[name] = None
    return tuple(f"{ABSENT} {verdict}: {', '.join(names)}." for verdict, names in why.items())
