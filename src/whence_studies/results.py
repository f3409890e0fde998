"""What was measured, as records: beside what is published, and beside what is claimed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from whence.errors import InputError
from whence_studies.cache import CachedColumns
from whence_studies.claims import (
    Estimate,
    compare,
    difference,
    over_seeds,
    protocol,
    verdict,
)
from whence_studies.measurements.measurement import SeedColumn
from whence_studies.measurements.registry import MEASUREMENTS, columns_of
from whence_studies.records import NEEDS_FILE, NOT_RUN, NOT_THERE, PRIVATE, Record
from whence_studies.study import Cell, Claim, ClaimSide, Study

AGREES, HIGHER, LOWER = "agrees", "higher", "lower"
UNPUBLISHED = "not published"
ONE_SEED = "no interval from one seed"


@dataclass(frozen=True)
class StudyResults:
    """All that is known of a study so far."""

    study: Study
    machine: str
    command: str
    found: dict[Cell, dict[str, CachedColumns]] = field(default_factory=dict)
    """By measurement; a cell whose data are not here is not among them."""

    def unfinished(self) -> list[Cell]:
        """The cells that can be measured here and are not yet."""
        wanted = len(self.study.measurements)
        return [cell for cell, measured in self.found.items() if len(measured) < wanted]

    def records(self) -> list[Record]:
        """Of every cell, then of every claim, also of what is not there yet."""
        columns = columns_of(self.study)
        records = [
            *(self._of_cell(cell, column) for cell in self.study.cells() for column in columns),
            *(
                self._of_claim(claim, dataset, model)
                for claim in self.study.claims
                for dataset, model in self.study.judged_on(claim)
            ),
        ]
        return judge_by_records(self.study, records)

    def _of_cell(self, cell: Cell, column: str) -> Record:
        printed = self.study.printed(column, cell)
        published = None if printed is None else float(printed)
        blank = replace(self._blank(cell, column), published=published)
        found = self._found(cell, column)
        if found is None:
            return blank
        estimate = over_seeds(list(found.by_seed.values()))
        return replace(
            blank,
            **estimate._asdict(),
            n=found.column.n,
            seeds=tuple(found.by_seed),
            verdict=compare_with_published(estimate, printed),
            protocol=found.column.protocol,
            label=found.column.label,
        )

    def _of_claim(self, claim: Claim, dataset: str, model: str) -> Record:
        """By the seeds that both sides have."""
        places = [self.study.side_of(claim, side, dataset, model) for side in claim.sides]
        sides = [self._found(*place) for place in places]
        absent = next((at for at, side in zip(places, sides, strict=True) if not side), places[0])
        data, name, _ = self.study.record_key(Cell(dataset, model, places[0][0].variant))
        blank = replace(
            self._blank(*absent),
            dataset=data,
            model=name,
            row=claim.text,
            column=places[0][1],
            protocol=protocol(claim, paired=not claim.between_datasets),
        )
        there = [side for side in sides if side is not None]
        if len(there) < len(places) or claim.between_datasets:
            return blank
        of, *others = there
        seeds = tuple(seed for seed in of.by_seed if all(seed in one.by_seed for one in others))
        values = [[side.by_seed[seed] for seed in seeds] for side in there]
        estimate = compare(claim, values[0], values[1] if others else None)
        judged = verdict(claim, estimate.interval)
        return replace(blank, **estimate._asdict(), n=of.column.n, seeds=seeds, verdict=judged)

    def _blank(self, cell: Cell, column: str) -> Record:
        """What the record is about, and why it has no value."""
        measured = self.found.get(cell)
        data, model, row = self.study.record_key(cell)
        absence = NOT_THERE if _giving(column, measured or {}) else NOT_RUN
        return Record(
            study=self.study.id,
            dataset=data,
            model=model,
            row=row,
            column=column,
            value=None,
            published=None,
            verdict=NEEDS_FILE if measured is None else absence,
            protocol="",
            machine=self.machine,
            command=self.command,
        )

    def _found(self, cell: Cell, column: str) -> _Column | None:
        measured = _giving(column, self.found.get(cell, {}))
        if measured is None or column not in measured.columns:
            return None
        found = measured.columns[column]
        # A measurement may be of the first seeds alone.
        return _Column(dict(zip(measured.seeds, found.per_seed, strict=False)), found)


class _Column(NamedTuple):
    by_seed: dict[int, float]
    column: SeedColumn


def _giving(column: str, measured: Mapping[str, CachedColumns]) -> CachedColumns | None:
    """What was measured by the measurement that this column is of."""
    return next(
        (one for name, one in measured.items() if column in MEASUREMENTS[name].all_columns), None
    )


def judge_by_records(study: Study, records: Sequence[Record]) -> list[Record]:
    """Claims that no run has judged, or of sides that have changed since, from their records.

    Machines may have made them apart, and two datasets are no pairs; so means are compared, which
    says less than a comparison seed by seed.
    """
    if study.tabulated:
        return _judge_tables(study, records)
    claims = {claim.text: claim for claim in study.claims}
    cells = {(one.dataset, one.model, one.row, one.column): one for one in records}
    shown = {data.data: name for name, data in study.datasets.items()}
    models = {model.name: name for name, model in study.models.items()}

    def judge(record: Record) -> Record:
        claim = claims.get(record.row)
        if claim is None:
            return record
        place = (shown[record.dataset], models[record.model or ""])
        sides = []
        for side in claim.sides:
            cell, column = study.side_of(claim, side, *place)
            sides.append(cells.get((*study.record_key(cell), column)))
        estimate = _by_records(claim, sides)
        if estimate is None or sides[0] is None:
            return record
        if not claim.between_datasets and _stands(record, sides, estimate.value):
            return record
        return replace(
            record,
            **estimate._asdict(),
            n=sides[0].n,
            seeds=sides[0].seeds,
            protocol=protocol(claim, paired=False),
            verdict=verdict(claim, estimate.interval),
        )

    return [judge(record) for record in records]


def _judge_tables(study: Study, records: Sequence[Record]) -> list[Record]:
    """The records of the tables, and behind them every claim as they judge it now."""
    claims = {claim.text for claim in study.claims}
    cells = [record for record in records if record.row not in claims]
    found = {(one.dataset, one.row, one.column): one for one in cells}

    def judge(claim: Claim) -> Record:
        columns = [side.column or claim.column or "" for side in claim.sides]
        sides = [
            found.get((side.dataset or "", side.variant or "", column))
            for side, column in zip(claim.sides, columns, strict=True)
        ]
        estimate = _by_records(claim, sides)
        absent = [
            _why_absent(side, cells) if one is None else one.verdict
            for side, one in zip(claim.sides, sides, strict=True)
            if not _known(one)
        ]
        of = sides[0] if estimate is not None else None
        origin = next((one for one in sides if one is not None), cells[0])
        return Record(
            study=study.id,
            dataset=claim.of.dataset or "",
            row=claim.text,
            column=columns[0],
            **(estimate or Estimate())._asdict(),
            n=None if of is None else of.n,
            seeds=() if of is None else of.seeds,
            published=None,
            verdict=absent[0] if absent else verdict(claim, estimate and estimate.interval),
            protocol=protocol(claim, paired=False),
            machine=origin.machine,
            command=origin.command,
        )

    return [*cells, *map(judge, study.claims)]


def _why_absent(side: ClaimSide, cells: Sequence[Record]) -> str:
    """Of a cell that nobody has written: what keeps others of its row from being there, if any."""
    others = (
        one.verdict for one in cells if (one.dataset, one.row) == (side.dataset, side.variant)
    )
    return next((one for one in others if one in (NEEDS_FILE, PRIVATE)), NOT_RUN)


def _stands(judged: Record, sides: Sequence[Record | None], value: float | None) -> bool:
    """Whether a claim was judged on what its sides have now, up to rounding.

    Of sides with different seeds only the common ones were compared, which records cannot repeat.
    """
    if judged.value is None or value is None:
        return False
    same_seeds = all(side is not None and side.seeds == judged.seeds for side in sides)
    return not same_seeds or math.isclose(judged.value, value, abs_tol=1e-9)


def _known(record: Record | None) -> bool:
    return record is not None and record.value is not None


def _by_records(claim: Claim, sides: Sequence[Record | None]) -> Estimate | None:
    """Nothing where a side has no interval, or where spreads are compared."""
    known = [
        (side.value, side.spread, len(side.seeds))
        for side in sides
        if side is not None and side.value is not None and side.spread is not None
    ]
    if len(known) < len(sides) or claim.expect == "spread lower":
        return None
    if len(known) == 1:
        (of,) = sides
        return None if of is None else Estimate(of.value, of.spread, of.interval)
    return difference(*known)


def compare_with_published(estimate: Estimate, printed: str | None) -> str:
    """Whether the interval meets what is printed, give or take half a unit of its last digit."""
    if printed is None:
        return UNPUBLISHED
    if estimate.interval is None:
        return ONE_SEED
    low, high = estimate.interval
    if low > float(printed) + half_a_unit(printed):
        return HIGHER
    return LOWER if high < float(printed) - half_a_unit(printed) else AGREES


def half_a_unit(printed: str) -> float:
    """Of the last digit that is printed."""
    return 0.5 * 10.0 ** -len(printed.partition(".")[2])


def rows_done(study: Study, records: Sequence[Record]) -> tuple[int, int]:
    """How many rows of the study have all their figures, and how many there are."""
    claims = {claim.text for claim in study.claims}
    rows: dict[tuple[str, str | None, str], bool] = {}
    for record in records:
        if record.row not in claims:
            row = (record.dataset, record.model, record.row)
            rows[row] = rows.get(row, True) and record.verdict not in (NOT_RUN, NEEDS_FILE, PRIVATE)
    return sum(rows.values()), len(rows)


def check_records(study: Study, records: Sequence[Record]) -> None:
    """Refuse records of the study as it was before its file was changed."""
    cells = {study.record_key(cell) for cell in study.cells()}
    claims = {
        (study.datasets[dataset].data, study.models[model].name, claim.text)
        for claim in study.claims
        for dataset, model in study.judged_on(claim)
    }
    found = {(record.dataset, record.model, record.row) for record in records}
    if not study.tabulated and found != cells | claims:
        raise InputError(
            f"The records of {study.id} are not of the study as it is now; "
            f"'{study.command} --minutes 0' brings them up to date."
        )
