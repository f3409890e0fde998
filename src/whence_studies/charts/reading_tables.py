"""The tables of comparable variants, and of claims over the readings of a configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from whence_studies.charts.cells import ABSENT, StudyTable, model_headings, number_text
from whence_studies.claims import VERDICTS
from whence_studies.comparable import (
    RecordIndex,
    bound_of,
    depends,
    index_records,
    is_comparable,
    value_of,
)
from whence_studies.declared_claims import Requirement
from whence_studies.records import Record
from whence_studies.study import Cell, Study

COMPARABLE = "Comparable variants"
READINGS = "Claims over comparable variants"
RULE = "Means over seeds decide."
COUNTED = "A claim is judged on comparable variants only."
ANSWERS = {True: "yes", False: "no", None: ABSENT}


def reading_tables(
    study: Study, cells: Sequence[Record], judged: Sequence[Record]
) -> list[StudyTable]:
    """Return what makes each variant comparable, and every claim in one line per model."""
    tables = []
    if study.comparable:
        tables.append(_comparable(study, index_records(cells)))
    if any(claim.readings_of for claim in study.claims):
        tables.append(_readings(study, judged))
    return tables


def _comparable(study: Study, records: RecordIndex) -> StudyTable:
    rows = tuple(
        (
            *((cell.model,) if len(study.models) > 1 else ()),
            cell.dataset,
            cell.variant,
            *(_compared(study, one, cell, records) for one in study.comparable),
            ANSWERS[is_comparable(study, cell, records)],
        )
        for cell in study.cells()
    )
    columns = (one.column for one in study.comparable)
    headings = (*model_headings(study), "variant", *columns, "comparable")
    rules = f"{'; '.join(map(rule_text, study.comparable))}."
    return StudyTable(COMPARABLE, headings, rows, notes=(f"{rules} {RULE}",))


def _compared(study: Study, requirement: Requirement, cell: Cell, records: RecordIndex) -> str:
    """Return a value with the lowest or highest that is comparable."""
    value = value_of(study, requirement.column, cell, records)
    bound = bound_of(study, requirement, cell, records)
    sign = "≤" if requirement.expect == "not higher" else "≥"
    shown, limit = (
        ABSENT if one is None else f"{one:.3f}".replace("-", "−") for one in (value, bound)
    )
    return f"{shown} ({sign} {limit})"


def rule_text(requirement: Requirement) -> str:
    """Return a requirement in words."""
    printed = "the published value"
    if requirement.published_as:
        printed = f"{printed} of {requirement.published_as}"
    way = "more" if requirement.expect == "not higher" else "less"
    if requirement.towards is None:
        beyond = f"at most {number_text(requirement.margin)} {way} than {printed}"
    else:
        share = number_text(requirement.share)
        beyond = f"at most {share} of the way from {printed} to the {requirement.towards}"
    return f"{requirement.column}: {beyond}"


def _readings(study: Study, judged: Sequence[Record]) -> StudyTable:
    stems = {claim.text: claim.stem for claim in study.claims if claim.readings_of}
    found: dict[tuple[str, str | None, str], list[str]] = {}
    for record in judged:
        if record.row in stems:
            place = (stems[record.row], record.model, record.dataset)
            found.setdefault(place, []).append(record.verdict)
    rows = tuple(
        (
            stem,
            *((shown,) if len(study.models) > 1 else ()),
            *(
                over_readings(study, found.get((stem, model.name, one.data), []))
                for one in study.datasets.values()
            ),
        )
        for stem in dict.fromkeys(stems.values())
        for shown, model in study.models.items()
        if any((stem, model.name, one.data) in found for one in study.datasets.values())
    )
    headings = ("claim", *model_headings(study)[:-1], *study.datasets)
    return StudyTable(READINGS, headings, rows, notes=(COUNTED,))


def over_readings(study: Study, verdicts: Sequence[str]) -> str:
    """Return how often a claim has each verdict, and whether that depends on the reading."""
    found = Counter(one for one in verdicts if one in VERDICTS)
    counts = ", ".join(f"{one} {found[one]}×" for one in VERDICTS if found[one])
    if not counts:
        return ABSENT
    return f"{dependence(study)}: {counts}" if depends(verdicts) else counts


def dependence(study: Study) -> str:
    """Return the finding on a claim that holds on one reading and not on another."""
    return f"depends on {study.readings_differ_by}"
