"""The tables of a study, built once from its records for Markdown, HTML and the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from whence_studies.charts.cells import (
    ABSENT,
    MeasuredOn,
    StudyTable,
    absences,
    cell_text,
    model_headings,
)
from whence_studies.charts.claim_tables import claim_tables
from whence_studies.charts.printed_tables import printed_tables
from whence_studies.charts.reading_tables import reading_tables
from whence_studies.comparable import RecordIndex
from whence_studies.measurements.measurement import (
    BarPlot,
    Figure,
    GridPlot,
    HeatMap,
    LinePlot,
    SharePlot,
)
from whence_studies.measurements.registry import figures_of, is_over_users
from whence_studies.records import Record
from whence_studies.study import Cell, Study

ALONE = "Mean over seeds ± half of its 95 % t-interval."
LEGEND = (
    f"{ALONE} In brackets the published value: = agrees (inside the interval, to the published "
    "precision), > higher here, < lower here."
)
OVER_USERS = "Intervals over users instead of seeds: {}."
ELSEWHERE = "Published elsewhere"


def study_tables(study: Study, records: Sequence[Record]) -> list[StudyTable]:
    """Return the tables of measured values, of figures, and of claims, in this order."""
    claims = {claim.text for claim in study.claims}
    cells = [record for record in records if record.row not in claims]
    judged = [record for record in records if record.row in claims]
    return [
        *_value_tables(study, cells),
        *reading_tables(study, cells, judged),
        *(claim_tables(study, judged) if judged else []),
    ]


def group_title(study: Study, group: str, variant: str) -> str:
    """Return the title of a group's table, with the variant if the study has several."""
    return f"{group}, {variant}" if len(study.variants) > 1 else group


def _value_tables(study: Study, cells: Sequence[Record]) -> list[StudyTable]:
    if study.tabulated:
        return printed_tables(cells)
    figures = figures_of(study)
    drawn = {column for figure in figures for column in figure.columns}
    measured = [record for record in cells if record.column not in drawn]
    tables = [
        _group(study, title, variant, cells) for title in study.groups for variant in study.variants
    ] or [
        _measure(study, column, [record for record in measured if record.column == column])
        for column in dict.fromkeys(record.column for record in measured)
    ]
    drawn_tables = (_figure(study, figure, cells) for figure in figures)
    return [*tables, *_published_elsewhere(study), *drawn_tables]


def _measure(study: Study, column: str, records: Sequence[Record]) -> StudyTable:
    """One column of the records: datasets down, variants across, or the other way round."""
    found = {(record.dataset, record.model, record.row): record for record in records}

    def text(cell: Cell) -> str:
        if not study.trains(cell.model, cell.variant):
            return ""
        return cell_text(found[study.record_key(cell)], study.published_text(column, cell))

    places = [(model, dataset) for model in study.models for dataset in study.datasets]
    if study.variants_down:
        rows = [
            (variant, *(text(Cell(dataset, model, variant)) for model, dataset in places))
            for variant in study.variants
        ]
        across = (", ".join(_model_and_dataset(study, *place)) for place in places)
        return _described(study, column, ("variant", *across), rows, records, len(places))
    rows = [
        (
            *_model_and_dataset(study, model, dataset),
            *(text(Cell(dataset, model, variant)) for variant in study.variants),
        )
        for model, dataset in places
    ]
    headings = (*model_headings(study), *study.variants)
    return _described(study, column, headings, rows, records, len(study.variants))


def _group(study: Study, group: str, variant: str, records: Sequence[Record]) -> StudyTable:
    """Columns of one variant next to each other, as a paper prints them."""
    columns = study.groups[group]
    own = [one for one in records if one.row == variant and one.column in columns]
    found = {(record.dataset, record.model, record.column): record for record in own}
    rows = []
    for cell in sorted(study.cells(), key=lambda one: list(study.models).index(one.model)):
        if cell.variant == variant:
            data, name, _ = study.record_key(cell)
            cells = (
                cell_text(found[data, name, column], study.published_text(column, cell))
                for column in columns
            )
            rows.append((*_model_and_dataset(study, cell.model, cell.dataset), *cells))
    headings = (*model_headings(study), *columns)
    title = group_title(study, group, variant)
    return _described(study, title, headings, rows, own, len(columns))


def _described(
    study: Study,
    title: str,
    headings: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    records: Sequence[Record],
    numbers: int,
) -> StudyTable:
    """A table of values with published ones, and how they were measured."""
    published = any(record.published is not None for record in records)
    return StudyTable(
        title,
        headings,
        tuple(rows),
        legend=LEGEND if published else ALONE,
        notes=(*_interval_notes(records), *absences(study, records)),
        measured=_measured(study, records),
        numbers=numbers,
    )


def _interval_notes(records: Sequence[Record]) -> tuple[str, ...]:
    """Return which columns have intervals over users."""
    columns = dict.fromkeys(one.column for one in records if is_over_users(one.column))
    return (OVER_USERS.format(", ".join(columns)),) if columns else ()


def _published_elsewhere(study: Study) -> list[StudyTable]:
    """The published values of models that the study does not train, as printed."""
    rows = study.published_elsewhere()
    if not rows:
        return []
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    texts = (
        (cell.model, cell.dataset, cell.variant, *(row.get(one, ABSENT) for one in columns))
        for cell, row in rows.items()
    )
    headings = ("model", "dataset", "source", *columns)
    return [StudyTable(ELSEWHERE, headings, tuple(texts), numbers=len(columns))]


def _figure(study: Study, figure: Figure, records: Sequence[Record]) -> StudyTable:
    """The values that a figure draws, as a table."""
    found = {(one.dataset, one.model, one.row, one.column): one for one in records}
    own = [one for one in records if one.column in figure.columns]
    match figure:
        case LinePlot():
            table = _line_plot(study, figure, found)
        case HeatMap() | SharePlot():
            table = _grid(study, figure, found)
        case BarPlot():
            table = _bar_plot(study, figure, found)
    headings, rows, notes, numbers = table
    return StudyTable(
        figure.title,
        headings,
        tuple(rows),
        legend="" if isinstance(figure, LinePlot) else ALONE,
        notes=(*notes, *absences(study, own)),
        measured=_measured(study, own),
        numbers=numbers,
    )


TableParts = tuple[tuple[str, ...], list[tuple[str, ...]], tuple[str, ...], int]
"""Headings, rows, notes, and the number of columns that hold numbers."""


def _line_plot(study: Study, plot: LinePlot, found: RecordIndex) -> TableParts:
    """The values of every line; their intervals are in the records and in the chart."""
    places = list(dict.fromkeys(x for line in plot.lines.values() for x in line))
    rows = [
        (
            *_place(study, cell),
            name,
            *(_point(found.get((*study.record_key(cell), line[x]))) for x in places if x in line),
        )
        for cell in study.cells()
        for name, line in plot.lines.items()
    ]
    headings = (*_place_headings(study), plot.y, *(f"{x:g}" for x in places))
    return headings, rows, (f"Across: {plot.x}. Means over seeds.",), len(places)


def _grid(study: Study, grid: GridPlot, found: RecordIndex) -> TableParts:
    down, across = (list(dict.fromkeys(names)) for names in zip(*grid.cells, strict=True))
    titles = grid.titles if isinstance(grid, HeatMap) else {}
    rows: list[tuple[str, ...]] = []
    for cell in study.cells():
        key, place = study.record_key(cell), _place(study, cell)
        if titles:
            labels = (found[*key, titles[one]].label or ABSENT for one in across)
            rows.append((*place, "", *labels))
        for name in down:
            own = [found[*key, grid.cells[name, one]] for one in across]
            label = f"{name}. {own[0].label or ABSENT}" if titles else name
            rows.append((*place, label, *map(cell_text, own)))
    headings = (*_place_headings(study), grid.down, *across)
    return headings, rows, ((f"Across: {grid.across}.",) if grid.across else ()), len(across)


def _bar_plot(study: Study, plot: BarPlot, found: RecordIndex) -> TableParts:
    """Bars down, each with its name and its label; panels across."""
    rows = []
    for cell in study.cells():
        key = study.record_key(cell)
        about = found[*key, plot.about].label or ABSENT
        for name in next(iter(plot.panels.values())):
            own = [found[*key, panel[name]] for panel in plot.panels.values()]
            label = own[0].label or ABSENT
            rows.append((*_place(study, cell), about, name, label, *map(cell_text, own)))
    headings = (*_place_headings(study), *plot.headings, *plot.panels)
    return headings, rows, (), len(plot.panels)


def _point(record: Record | None) -> str:
    return ABSENT if record is None or record.value is None else f"{record.value:.3g}"


def _model_and_dataset(study: Study, model: str, dataset: str) -> tuple[str, ...]:
    """Return the dataset, after the model if the study has several."""
    return (dataset,) if len(study.models) == 1 else (model, dataset)


def _place_headings(study: Study) -> tuple[str, ...]:
    return (*model_headings(study), *(("variant",) if len(study.variants) > 1 else ()))


def _place(study: Study, cell: Cell) -> tuple[str, ...]:
    """Return the dataset of a cell, with its model and variant if the study has several."""
    place = _model_and_dataset(study, cell.model, cell.dataset)
    return (*place, cell.variant) if len(study.variants) > 1 else place


def _measured(study: Study, records: Sequence[Record]) -> tuple[MeasuredOn, ...]:
    """Return how many cases of each dataset were measured, by which protocol."""
    datasets = {dataset.data: name for name, dataset in study.datasets.items()}
    by_protocol: dict[tuple[str, int], dict[str, list[int]]] = {}
    for record in records:
        if record.protocol and record.n is not None:
            # A protocol starts with the number of cases unless some could not be measured.
            words = record.protocol.removeprefix(f"{record.n:,} ")
            on = by_protocol.setdefault((words, len(record.seeds)), {})
            on.setdefault(datasets[record.dataset], []).append(record.n)
    return tuple(
        MeasuredOn(
            f"n = {', '.join(f'{_from_to(counts)} ({name})' for name, counts in on.items())}; "
            f"{seeds} seed{'s' * (seeds != 1)}",
            words,
        )
        for (words, seeds), on in by_protocol.items()
    )


def _from_to(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
