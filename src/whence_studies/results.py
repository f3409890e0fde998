"""The results of a study as records: measured values with published ones, and claims judged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import NamedTuple

from whence.errors import InputError
from whence_studies.cache import CachedColumns
from whence_studies.claims import (
    BOOTSTRAP,
    NOT_COMPARABLE,
    OVER_SEEDS,
    OVER_USERS,
    UNDECIDED,
    Estimate,
    claim_protocol,
    compare_sides,
    half_last_digit,
    judge_claim,
    over_seeds,
    welch_difference,
)
from whence_studies.comparable import index_records, is_comparable
from whence_studies.declared_claims import Claim, ClaimSide
from whence_studies.measurements.measurement import SeedColumn
from whence_studies.measurements.registry import MEASUREMENTS, columns_of, is_over_users
from whence_studies.records import NEEDS_FILE, NOT_RUN, NOT_THERE, PRIVATE, Record
from whence_studies.study import Cell, Study

AGREES, HIGHER, LOWER = "agrees", "higher", "lower"
UNPUBLISHED = "not published"
ONE_SEED = "no interval from one seed"


@dataclass(frozen=True)
class StudyResults:
    """What is measured of a study so far."""

    study: Study
    machine: str
    command: str
    found: dict[Cell, dict[str, CachedColumns]] = field(default_factory=dict)
    """By cell and measurement; cells whose data are not available are missing."""

    def unfinished(self) -> list[Cell]:
        """Return the cells that can be measured here and are not yet."""
        wanted = self.study.measurements_on
        return [
            cell
            for cell, measured in self.found.items()
            if len(measured) < len(wanted(cell.dataset))
        ]

    def records(self) -> list[Record]:
        """Return the records of every cell, then of every claim, also of those not run yet."""
        columns = columns_of(self.study)
        records = [
            *(self._cell_record(cell, column) for cell in self.study.cells() for column in columns),
            *(
                self._claim_record(claim, dataset, model)
                for claim in self.study.claims
                for dataset, model in self.study.claim_places(claim)
            ),
        ]
        return judge_by_records(self.study, records)

    def _cell_record(self, cell: Cell, column: str) -> Record:
        printed = self.study.published_text(column, cell)
        published = None if printed is None else float(printed)
        blank = replace(self._blank(cell, column), published=published)
        found = self._found(cell, column)
        if found is None:
            return blank
        estimate = found.estimate
        return replace(
            blank,
            **estimate._asdict(),
            n=found.column.n,
            seeds=tuple(found.by_seed),
            verdict=compare_with_published(estimate, printed),
            protocol=found.column.protocol,
            label=found.column.label,
        )

    def _claim_record(self, claim: Claim, dataset: str, model: str) -> Record:
        """Judge a claim by the seeds that both sides have."""
        places = [self.study.side_place(claim, side, dataset, model) for side in claim.sides]
        sides = [self._found(*place) for place in places]
        absent = next((at for at, side in zip(places, sides, strict=True) if not side), places[0])
        data, name, _ = self.study.record_key(Cell(dataset, model, places[0][0].variant))
        blank = replace(
            self._blank(*absent),
            dataset=data,
            model=name,
            row=claim.text,
            column=places[0][1],
            protocol=claim_protocol(claim, not claim.between_datasets, _interval_of(places[0][1])),
        )
        there = [side for side in sides if side is not None]
        if len(there) < len(places) or claim.between_datasets:
            return blank
        of, *others = there
        seeds = tuple(seed for seed in of.by_seed if all(seed in one.by_seed for one in others))
        values = [
            [claim_side.times * side.by_seed[seed] for seed in seeds]
            for claim_side, side in zip(claim.sides, there, strict=True)
        ]
        estimate = compare_sides(claim, *values) if others else of.estimate.times(claim.of.times)
        return replace(blank, **estimate._asdict(), n=of.column.n, seeds=seeds, verdict=UNDECIDED)

    def _blank(self, cell: Cell, column: str) -> Record:
        """Return a record without a value that says why it has none."""
        measured = self.found.get(cell)
        data, model, row = self.study.record_key(cell)
        wanted = self.study.measurements_on(cell.dataset)
        due = any(column in MEASUREMENTS[name].all_columns for name in wanted)
        absence = NOT_THERE if not due or _source_of(column, measured or {}) else NOT_RUN
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
        measured = _source_of(column, self.found.get(cell, {}))
        if measured is None or column not in measured.columns:
            return None
        found = measured.columns[column]
        # A measurement may cover the first seeds only.
        return _Column(dict(zip(measured.seeds, found.per_seed, strict=False)), found)


class _Column(NamedTuple):
    by_seed: dict[int, float]
    column: SeedColumn

    @property
    def estimate(self) -> Estimate:
        """The mean over seeds, with its interval over seeds or users."""
        values, column = list(self.by_seed.values()), self.column
        if column.interval is None:
            return over_seeds(values)
        return Estimate(fmean(values), column.spread, column.interval)


def _source_of(column: str, measured: Mapping[str, CachedColumns]) -> CachedColumns | None:
    """Return the columns of the measurement that this column belongs to."""
    return next(
        (one for name, one in measured.items() if column in MEASUREMENTS[name].all_columns), None
    )


def judge_by_records(study: Study, records: Sequence[Record]) -> list[Record]:
    """Judge every claim by its record, or by the records of its sides if they say otherwise.

    A claim that no run has compared, or whose sides have changed since, is compared by their
    records. The sides may come from different machines or datasets, so their means are compared.
    That is less precise than a comparison paired by seed.
    """
    if study.tabulated:
        return _judge_tables(study, records)
    claims = {claim.text: claim for claim in study.claims}
    cells = index_records(records)
    shown = {data.data: name for name, data in study.datasets.items()}
    models = {model.name: name for name, model in study.models.items()}

    def judge(record: Record) -> Record:
        claim = claims.get(record.row)
        if claim is None:
            return record
        place = (shown[record.dataset], models[record.model or ""])
        places = [study.side_place(claim, side, *place) for side in claim.sides]
        sides = [cells.get((*study.record_key(cell), column)) for cell, column in places]
        of, estimate = sides[0], _by_records(claim, sides)
        compared = estimate is None or (
            not claim.between_datasets and _stands(record, sides, estimate.value)
        )
        if estimate is not None and of is not None and not compared:
            record = replace(
                record,
                **estimate._asdict(),
                n=of.n,
                seeds=of.seeds,
                protocol=claim_protocol(claim, False, _interval_of(of.column)),
            )
        judged = _judged(claim, record, study.printed_side(claim, *place))
        comparable = [is_comparable(study, cell, cells) for cell, _ in places]
        if judged.interval is None or all(comparable):
            return judged
        verdict = NOT_COMPARABLE if False in comparable else NOT_RUN
        return replace(judged, verdict=verdict, at_half=None, at_double=None)

    return [judge(record) for record in records]


def _interval_of(column: str) -> str:
    """Return what the interval of a measured column is over."""
    return OVER_USERS if is_over_users(column) else OVER_SEEDS


def _judged(claim: Claim, record: Record, printed: str | None = None) -> Record:
    """Return the record of a claim with its source, and with its verdict if it has a value."""
    noted = replace(record, source=claim.source, transferred_from=claim.transferred_from)
    if record.interval is None:
        return noted
    return replace(noted, **judge_claim(claim, record.interval, printed)._asdict())


def _judge_tables(study: Study, records: Sequence[Record]) -> list[Record]:
    """Return the records of the tables, followed by every claim judged on them."""
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
        interval = OVER_SEEDS if of is None or of.spread is not None else BOOTSTRAP
        record = Record(
            study=study.id,
            dataset=claim.of.dataset or "",
            row=claim.text,
            column=columns[0],
            **(estimate or Estimate())._asdict(),
            n=None if of is None else of.n,
            seeds=() if of is None else of.seeds,
            published=None,
            verdict=absent[0] if absent else UNDECIDED,
            protocol=claim_protocol(claim, False, interval),
            machine=origin.machine,
            command=origin.command,
        )
        return _judged(claim, record)

    return [*cells, *map(judge, study.claims)]


def _why_absent(side: ClaimSide, cells: Sequence[Record]) -> str:
    """Return why a cell has no record: the reason why others of its row are absent, if any."""
    others = (
        one.verdict for one in cells if (one.dataset, one.row) == (side.dataset, side.variant)
    )
    return next((one for one in others if one in (NEEDS_FILE, PRIVATE)), NOT_RUN)


def _stands(judged: Record, sides: Sequence[Record | None], value: float | None) -> bool:
    """Return whether a claim was judged on the present values of its sides, up to rounding.

    If the sides have different seeds, only their common seeds were compared. The records cannot
    repeat that.
    """
    if judged.value is None or value is None:
        return False
    same_seeds = all(side is not None and side.seeds == judged.seeds for side in sides)
    return not same_seeds or math.isclose(judged.value, value, abs_tol=1e-9)


def _known(record: Record | None) -> bool:
    return record is not None and record.value is not None


def _by_records(claim: Claim, sides: Sequence[Record | None]) -> Estimate | None:
    """Return the estimate, or nothing if a side has no interval or spreads are compared."""
    if len(sides) == 1 and claim.expect != "spread lower":
        (of,) = sides
        if of is None or of.interval is None:
            return None
        return Estimate(of.value, of.spread, of.interval).times(claim.of.times)
    known = [
        (times * side.value, times * side.spread, len(side.seeds))
        for side, times in zip(sides, (one.times for one in claim.sides), strict=True)
        if side is not None and side.value is not None and side.spread is not None
    ]
    if len(known) < len(sides) or claim.expect == "spread lower":
        return None
    return welch_difference(*known)


def compare_with_published(estimate: Estimate, printed: str | None) -> str:
    """Return whether the interval contains the published value, to its published precision."""
    if printed is None:
        return UNPUBLISHED
    if estimate.interval is None:
        return ONE_SEED
    low, high = estimate.interval
    if low > float(printed) + half_last_digit(printed):
        return HIGHER
    return LOWER if high < float(printed) - half_last_digit(printed) else AGREES


def rows_done(study: Study, records: Sequence[Record]) -> tuple[int, int]:
    """Return how many rows of the study have all their values, and how many rows there are."""
    claims = {claim.text for claim in study.claims}
    rows: dict[tuple[str, str | None, str], bool] = {}
    for record in records:
        if record.row not in claims:
            row = (record.dataset, record.model, record.row)
            rows[row] = rows.get(row, True) and record.verdict not in (NOT_RUN, NEEDS_FILE, PRIVATE)
    return sum(rows.values()), len(rows)


def check_records(study: Study, records: Sequence[Record]) -> None:
    """Refuse records that were made before the study file changed."""
    cells = {study.record_key(cell) for cell in study.cells()}
    claims = {
        (study.datasets[dataset].data, study.models[model].name, claim.text)
        for claim in study.claims
        for dataset, model in study.claim_places(claim)
    }
    found = {(record.dataset, record.model, record.row) for record in records}
    if not study.tabulated and found != cells | claims:
        raise InputError(
            f"The records of {study.id} do not match its study file. Run "
            f"'{study.command} --minutes 0' to bring them up to date."
        )
