"""Which variants measure what the paper printed, so that its claims can be judged on them.

A paper that leaves a setting open has several readings. A reading that does not reach the printed
accuracy, say, is another system than the paper's, and no verdict on it is about the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whence_studies.claims import FAILS, HOLDS
from whence_studies.declared_claims import Requirement
from whence_studies.records import Record
from whence_studies.study import Cell, Study

RecordIndex = Mapping[tuple[str, str | None, str, str], Record]
"""By data, model, variant and column."""


def index_records(records: Sequence[Record]) -> RecordIndex:
    """Return the records by their place."""
    return {(one.dataset, one.model, one.row, one.column): one for one in records}


def bound_of(
    study: Study, requirement: Requirement, cell: Cell, records: RecordIndex
) -> float | None:
    """Return the lowest or highest value that is comparable; nothing if it is not known yet."""
    configuration = requirement.published_as or cell.variant
    named = Cell(cell.dataset, cell.model, configuration)
    printed = study.published_text(requirement.column, named)
    if printed is None:
        return None
    away = requirement.margin
    if requirement.towards is not None:
        other = value_of(study, requirement.towards, cell, records)
        if other is None:
            return None
        return float(printed) + requirement.share * (other - float(printed))
    return float(printed) + (away if requirement.expect == "not higher" else -away)


def value_of(study: Study, column: str, cell: Cell, records: RecordIndex) -> float | None:
    """Return the mean over seeds of a column in a cell, if it is measured."""
    record = records.get((*study.record_key(cell), column))
    return None if record is None else record.value


def is_met(study: Study, requirement: Requirement, cell: Cell, records: RecordIndex) -> bool | None:
    """Return whether a cell meets a requirement; nothing if that is not known yet."""
    value = value_of(study, requirement.column, cell, records)
    bound = bound_of(study, requirement, cell, records)
    if value is None or bound is None:
        return None
    return value <= bound if requirement.expect == "not higher" else value >= bound


def is_comparable(study: Study, cell: Cell, records: RecordIndex) -> bool | None:
    """Return whether a cell meets every requirement; nothing if that is not known yet."""
    met = [is_met(study, one, cell, records) for one in study.comparable]
    if False in met:
        return False
    return None if None in met else True


def depends(verdicts: Sequence[str]) -> bool:
    """Return whether a claim holds on one reading and does not hold on another."""
    return {HOLDS, FAILS} <= set(verdicts)
