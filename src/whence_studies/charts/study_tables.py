"""A study's records as tables for people: made once, then set in Markdown, HTML or the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group
from rich.markup import escape

from whence.terminal import captioned, plain_table
from whence_studies.charts.cells import ABSENT, StudyTable, cell_text
from whence_studies.charts.tabulated import tabulated
from whence_studies.measurements.measurement import (
    BarPlot,
    Figure,
    GridPlot,
    HeatMap,
    LinePlot,
    SharePlot,
)
from whence_studies.measurements.registry import figures_of
from whence_studies.records import Record
from whence_studies.study import Cell, Claim, Study

LEGEND = (
    "Mean over seeds ± half of its 95 % t-interval; in brackets what is published: = agrees (the "
    "interval meets it, as far as it is printed), > is higher here, < is lower here."
)
CLAIMS = "Claims"
WIDEST = 12
"""Columns of a table that a terminal can show."""
ALONE = "Mean over seeds ± half of its 95 % t-interval."


def study_tables(study: Study, records: Sequence[Record]) -> list[StudyTable]:
    """Of what is measured, with datasets down, of the figures, and then of the claims."""
    claims = {claim.text for claim in study.claims}
    cells = [record for record in records if record.row not in claims]
    judged = [record for record in records if record.row in claims]
    if study.tabulated:
        return [*tabulated(cells), *([_claims_of_tables(study, judged)] if judged else [])]
    figures = figures_of(study)
    drawn = {column for figure in figures for column in figure.columns}
    measured = [record for record in cells if record.column not in drawn]
    tables = [
        _group(study, title, variant, cells) for title in study.groups for variant in study.variants
    ] or [
        _measure(study, column, [record for record in measured if record.column == column])
        for column in dict.fromkeys(record.column for record in measured)
    ]
    tables += [_figure(study, figure, cells) for figure in figures]
    return [*tables, _claims(study, judged)] if judged else tables


def as_markdown(study: Study, records: Sequence[Record]) -> str:
    """A page for people."""
    made = ", ".join(f"`{command}` on {machine}" for command, machine in origins(records))
    lines = [f"# {study.title}", "", f"{study.source}. Made by {made}.", ""]
    for table in study_tables(study, records):
        lines += [f"## {table.title}", ""] if table.title else []
        left = len(table.headings) - table.numbers
        lines += [
            _line(table.headings),
            "|" + "---|" * left + "---:|" * table.numbers,
            *map(_line, table.rows),
            "",
        ]
        for note in table.notes:
            lines += [note, ""]
    return "\n".join(lines[:-1]) + "\n"


def terminal_tables(study: Study, records: Sequence[Record]) -> Iterable[Group]:
    """For the terminal."""
    for table in study_tables(study, records):
        if len(table.headings) > WIDEST:
            yield Group(
                f"{escape(table.title)}: {len(table.headings)} columns, too many for a terminal; "
                f"they are in {study.id}.md and {study.id}.html, and by --json.\n"
            )
            continue
        headings = (escape(heading) for heading in table.headings)
        shown = plain_table(table.title or study.title, *headings, numbers=table.numbers)
        for row in table.rows:
            shown.add_row(*map(escape, row))
        yield captioned(shown, "\n".join(table.notes))


def origins(records: Sequence[Record]) -> list[tuple[str, str]]:
    """The commands that made the records, each with the machine it ran on."""
    return list(dict.fromkeys((record.command, record.machine) for record in records))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _measure(study: Study, column: str, records: Sequence[Record]) -> StudyTable:
    """Ours beside the published ones; datasets down, variants across."""
    found = {(record.dataset, record.model, record.row): record for record in records}
    rows = [
        (
            *_who(study, model, dataset),
            *(
                cell_text(found[study.record_key(cell)], study.printed(column, cell))
                if study.has(model, cell.variant)
                else ""
                for cell in (Cell(dataset, model, variant) for variant in study.variants)
            ),
        )
        for model in study.models
        for dataset in study.datasets
    ]
    published = any(record.published is not None for record in records)
    notes = (LEGEND if published else ALONE, *_protocols(study, records))
    headings = (*_who_headings(study), *study.variants)
    return StudyTable(column, headings, tuple(rows), notes, numbers=len(study.variants))


def group_title(study: Study, group: str, variant: str) -> str:
    """The variant is said where there are several."""
    return f"{group}, {variant}" if len(study.variants) > 1 else group


def _group(study: Study, group: str, variant: str, records: Sequence[Record]) -> StudyTable:
    """Columns of one variant side by side, as a paper prints them."""
    columns = study.groups[group]
    own = [one for one in records if one.row == variant and one.column in columns]
    found = {(record.dataset, record.model, record.column): record for record in own}
    rows = []
    for cell in sorted(study.cells(), key=lambda one: list(study.models).index(one.model)):
        if cell.variant == variant:
            data, name, _ = study.record_key(cell)
            cells = (
                cell_text(found[data, name, column], study.printed(column, cell))
                for column in columns
            )
            rows.append((*_who(study, cell.model, cell.dataset), *cells))
    published = any(record.published is not None for record in own)
    notes = (LEGEND if published else ALONE, *_protocols(study, own))
    headings = (*_who_headings(study), *columns)
    title = group_title(study, group, variant)
    return StudyTable(title, headings, tuple(rows), notes, numbers=len(columns))


Found = Mapping[tuple[str, str | None, str, str], Record]
"""By data, model, variant and column."""


def _figure(study: Study, figure: Figure, records: Sequence[Record]) -> StudyTable:
    """What the figure shows, as a table of its own."""
    found = {(one.dataset, one.model, one.row, one.column): one for one in records}
    of = [one for one in records if one.column in figure.columns]
    match figure:
        case LinePlot():
            return _curves(study, figure, found, _protocols(study, of))
        case HeatMap() | SharePlot():
            return _grid(study, figure, found, _protocols(study, of))
        case BarPlot():
            return _bars(study, figure, found, _protocols(study, of))


def _curves(study: Study, curves: LinePlot, found: Found, protocols: list[str]) -> StudyTable:
    """Every line's values; their intervals are in the records and in the chart."""
    places = list(dict.fromkeys(x for line in curves.lines.values() for x in line))
    rows = [
        (
            *_where(study, cell),
            name,
            *(_point(found.get((*study.record_key(cell), line[x]))) for x in places if x in line),
        )
        for cell in study.cells()
        for name, line in curves.lines.items()
    ]
    headings = (*_where_headings(study), curves.y, *(f"{x:g}" for x in places))
    notes = (f"Across: {curves.x}. Means over seeds.", *protocols)
    return StudyTable(curves.title, headings, tuple(rows), notes, numbers=len(places))


def _grid(study: Study, grid: GridPlot, found: Found, protocols: list[str]) -> StudyTable:
    """As it is drawn."""
    down, across = (list(dict.fromkeys(names)) for names in zip(*grid.cells, strict=True))
    titles = grid.titles if isinstance(grid, HeatMap) else {}
    rows: list[tuple[str, ...]] = []
    for cell in study.cells():
        key, where = study.record_key(cell), _where(study, cell)
        if titles:
            labels = (found[*key, titles[one]].label or ABSENT for one in across)
            rows.append((*where, "", *labels))
        for name in down:
            own = [found[*key, grid.cells[name, one]] for one in across]
            said = f"{name}. {own[0].label or ABSENT}" if titles else name
            rows.append((*where, said, *map(cell_text, own)))
    headings = (*_where_headings(study), grid.down, *across)
    across_is = f"Across: {grid.across}. " if grid.across else ""
    notes = (f"{across_is}{ALONE}", *protocols)
    return StudyTable(grid.title, headings, tuple(rows), notes, numbers=len(across))


def _bars(study: Study, bars: BarPlot, found: Found, protocols: list[str]) -> StudyTable:
    """Bars down, each by its name and what it is of; panels across."""
    rows = []
    for cell in study.cells():
        key = study.record_key(cell)
        about = found[*key, bars.about].label or ABSENT
        for name in next(iter(bars.panels.values())):
            own = [found[*key, panel[name]] for panel in bars.panels.values()]
            of = own[0].label or ABSENT
            rows.append((*_where(study, cell), about, name, of, *map(cell_text, own)))
    headings = (*_where_headings(study), *bars.headings, *bars.panels)
    return StudyTable(
        bars.title, headings, tuple(rows), (ALONE, *protocols), numbers=len(bars.panels)
    )


def _point(record: Record | None) -> str:
    return ABSENT if record is None or record.value is None else f"{record.value:.3g}"


def _claims(study: Study, records: Sequence[Record]) -> StudyTable:
    """Claims down, datasets across."""
    found = {(record.row, record.dataset, record.model): record for record in records}
    rows = tuple(
        (
            _with_column(claim),
            *((shown_model,) if len(study.models) > 1 else ()),
            *(
                _judged(found.get((claim.text, data.data, model.name)))
                for data in study.datasets.values()
            ),
        )
        for claim in study.claims
        for shown_model, model in study.models.items()
        if any((claim.text, data.data, model.name) in found for data in study.datasets.values())
    )
    notes = tuple(_how_judged(study, claim, records) for claim in study.claims)
    headings = ("claim", *_who_headings(study)[:-1], *study.datasets)
    return StudyTable(CLAIMS, headings, rows, (*notes, *_absences(study, records)))


def _claims_of_tables(study: Study, records: Sequence[Record]) -> StudyTable:
    """One below the other, each with the data it is about."""
    said = {claim.text: claim for claim in study.claims}
    names = {dataset.data: name for name, dataset in study.datasets.items()}
    rows = tuple(
        (_with_column(said[one.row]), names.get(one.dataset, one.dataset), _judged(one))
        for one in records
    )
    notes = [f"{said[one.row].source}, “{one.row}”: {one.protocol}." for one in records]
    headings = ("claim", "dataset", "judged")
    return StudyTable(CLAIMS, headings, rows, (*notes, *_absences(study, records)))


def _with_column(claim: Claim) -> str:
    return f"{claim.text} ({claim.column})" if claim.column else claim.text


def _how_judged(study: Study, claim: Claim, records: Sequence[Record]) -> str:
    """Where it was not judged alike, with the models and the data of each way."""
    models = {model.name: name for name, model in study.models.items()}
    data = {dataset.data: name for name, dataset in study.datasets.items()}
    own = [record for record in records if record.row == claim.text]
    ways: dict[str, list[str]] = {}
    for record in [one for one in own if one.value is not None] or own:
        where = f"{models[record.model or '']} on {data[record.dataset]}"
        ways.setdefault(record.protocol, []).append(where)
    said = [way if len(ways) == 1 else f"{', '.join(of)}: {way}" for way, of in ways.items()]
    return f"{claim.source}, “{claim.text}”: {'; '.join(said)}."


def _who_headings(study: Study) -> tuple[str, ...]:
    return ("dataset",) if len(study.models) == 1 else ("model", "dataset")


def _who(study: Study, model: str, dataset: str) -> tuple[str, ...]:
    """The model is said where there are several."""
    return (dataset,) if len(study.models) == 1 else (model, dataset)


def _where_headings(study: Study) -> tuple[str, ...]:
    return (*_who_headings(study), *(("variant",) if len(study.variants) > 1 else ()))


def _where(study: Study, cell: Cell) -> tuple[str, ...]:
    """Model and variant are said where there are several."""
    who = _who(study, cell.model, cell.dataset)
    return (*who, cell.variant) if len(study.variants) > 1 else who


def _judged(record: Record | None) -> str:
    if record is None:
        return ""
    if record.value is None or record.interval is None:
        return ABSENT if not record.seeds else record.verdict
    figures = "{:.4f} [{:.4f}, {:.4f}]".format(record.value, *record.interval)
    return f"{record.verdict}: {figures.replace('-', '−')}"


def _protocols(study: Study, records: Sequence[Record]) -> list[str]:
    """On what each dataset was measured."""
    datasets = {dataset.data: name for name, dataset in study.datasets.items()}
    said: dict[str, dict[str, list[int]]] = {}
    for record in records:
        if record.protocol and record.n is not None:
            # Where some events could not be measured, the protocol begins with more than n.
            rest = record.protocol.removeprefix(f"{record.n:,} ")
            words = rest if rest != record.protocol else f"of {rest}"
            on = said.setdefault(f"{words}; {len(record.seeds)} seeds.", {})
            on.setdefault(datasets[record.dataset], []).append(record.n)
    return [
        f"{', '.join(f'{name} {_from_to(counts)}' for name, counts in on.items())} {words}"
        for words, on in said.items()
    ] + _absences(study, records)


def _from_to(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _absences(study: Study, records: Sequence[Record]) -> list[str]:
    """Why figures are absent, and on which datasets."""
    datasets = {dataset.data: name for name, dataset in study.datasets.items()}
    why: dict[str, dict[str, None]] = {}
    for record in records:
        if record.value is None and not record.seeds:
            name = datasets.get(record.dataset, record.dataset)
            why.setdefault(record.verdict, {})[name] = None
    return [f"{ABSENT} {verdict}: {', '.join(names)}." for verdict, names in why.items()]
