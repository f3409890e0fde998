"""Charts of a study: measured values with published ones, and verdicts on claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from whence.report.charts import AGAINST, FOR, NEUTRAL, inline, styled
from whence_studies.charts.claim_tables import claims_by_title
from whence_studies.charts.skip_charts import selection_charts
from whence_studies.charts.study_figures import (
    AXIS,
    LIMIT,
    PANEL_WIDTH,
    ROW_HEIGHT,
    cell_of,
    figure_chart,
    in_panels,
    small_title,
    tooltips,
    value_fields,
)
from whence_studies.charts.study_tables import group_title
from whence_studies.claims import (
    BANDS,
    FAILS,
    HOLDS,
    NOT_COMPARABLE,
    PRINT_OUTSIDE,
    UNDECIDED,
    VERDICTS,
    half_last_digit,
)
from whence_studies.declared_claims import Claim
from whence_studies.measurements.registry import figures_of, is_over_users
from whence_studies.records import Record
from whence_studies.study import Cell, Study

HERE, PUBLISHED = "here, with 95 % interval over seeds", "published, to its precision"
HERE_OVER_USERS = "here, with 95 % interval over users"
PRINT, OPEN, APART = "#d9a441", "#8a94a0", "#d5d9de"
VERDICT_COLOURS = {
    HOLDS: FOR,
    UNDECIDED: OPEN,
    FAILS: AGAINST,
    PRINT_OUTSIDE: PRINT,
    NOT_COMPARABLE: APART,
}
RARE = (PRINT_OUTSIDE, NOT_COMPARABLE)
"""Verdicts that few studies have; they are in the key of these alone."""
CLAIM_WIDTH = 560
DASHED = "dashed: the limit; a claim is decided if the whole interval is on one side of it"


def study_charts(study: Study, records: Sequence[Record]) -> dict[str, alt.FacetChart]:
    """Return the chart of each table by its title, as far as its values are measured."""
    charts = _untitled_charts(study, records)
    return {title: _titled(chart, title, study) for title, chart in charts.items()}


def _titled(chart: alt.FacetChart, title: str, study: Study) -> alt.FacetChart:
    """Give a chart the title of its table; the study's title and a key become its subtitle."""
    key = chart.title.text if isinstance(chart.title, alt.Title) else None
    subtitle = [study.title, *([key] if isinstance(key, str) else [])]
    heading = alt.Title(
        title, subtitle=subtitle, anchor="start", fontSize=14, subtitleFontSize=11, offset=12
    )
    titled: alt.FacetChart = chart.properties(title=heading)
    return titled


def _untitled_charts(study: Study, records: Sequence[Record]) -> dict[str, alt.FacetChart]:
    claims = {claim.text for claim in study.claims}
    found = [record for record in records if record.interval]
    judged = [record for record in found if record.row in claims]
    of_claims = {
        title: claims_chart(study, own) for title, own in claims_by_title(study, judged).items()
    }
    if study.tabulated:
        cells = [record for record in records if record.row not in claims]
        return {**selection_charts(cells), **of_claims}
    figures = figures_of(study)
    drawn = {column for figure in figures for column in figure.columns}
    cells = [record for record in found if record.row not in claims]
    measured = [record for record in cells if record.column not in drawn]
    charts = {
        group_title(study, group, variant): group_chart(study, cells, group, variant)
        for group, columns in study.groups.items()
        for variant in study.variants
        if any(one.row == variant and one.column in columns for one in cells)
    }
    if not study.groups:
        shown = dict.fromkeys(record.column for record in measured)
        charts = {column: measure_chart(study, records, column) for column in shown}
    for figure in figures:
        if any(record.column in figure.columns for record in cells):
            charts[figure.title] = figure_chart(study, figure, cells)
    return {**charts, **of_claims}


def measure_chart(study: Study, records: Sequence[Record], column: str) -> alt.FacetChart:
    """One panel per dataset; a dot with interval per variant, and the published value."""
    found = {(one.dataset, one.model, one.row): one for one in records if one.column == column}
    rows = [
        _row(study, cell, column, found[study.record_key(cell)])
        for cell in study.cells()
        if found[study.record_key(cell)].interval
    ]
    layers, height = _value_layers(rows, column, is_over_users(column))
    panel = alt.LayerChart(layer=layers, width=PANEL_WIDTH, height=height)
    chart: alt.FacetChart = panel.facet(
        column=alt.Column("dataset:N", title=None, sort=list(study.datasets)), data=inline(rows)
    ).resolve_scale(x="independent")
    return styled(chart)


def group_chart(
    study: Study, records: Sequence[Record], group: str, variant: str
) -> alt.FacetChart:
    """One panel per dataset and model; a dot with interval per column, and the published value."""
    own = [one for one in records if one.row == variant and one.column in study.groups[group]]
    rows = []
    for record in own:
        cell = cell_of(study, record.dataset, record.model, variant)
        figures = _row(study, cell, record.column, record)
        rows.append({**figures, "name": record.column, "model": cell.model})
    layers, height = _value_layers(rows, None, all(map(is_over_users, study.groups[group])))
    panel = alt.LayerChart(layer=layers, width=PANEL_WIDTH, height=height)
    across, down = ("dataset", list(study.datasets)), ("model", list(study.models))
    return styled(in_panels(panel, rows, across, down))


def _value_layers(
    rows: list[dict[str, Any]], column: str | None, over_users: bool
) -> tuple[list[alt.Chart], int]:
    """Return the layers of a panel of named rows, and its height."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    here = HERE_OVER_USERS if over_users else HERE
    shown = [here, PUBLISHED] if any("published" in row for row in rows) else [here]
    base = alt.Chart().encode(
        y=alt.Y("name:N", title=None, sort=names),
        color=_kind(shown),
        tooltip=["dataset:N", *tooltips(), *(["published:N"] if PUBLISHED in shown else [])],
    )
    ours = base.transform_calculate(kind=repr(here))
    printed = base.transform_calculate(kind=repr(PUBLISHED))
    band: alt.Chart = printed.mark_bar(height=16, opacity=0.45).encode(
        x=_x("print_low", column), x2="print_high:Q"
    )
    tick: alt.Chart = printed.mark_tick(thickness=2, size=16, opacity=1).encode(
        x=_x("print_value", column)
    )
    layers = [*([band, tick] if PUBLISHED in shown else []), *_dots(ours, column)]
    return layers, ROW_HEIGHT * len(names)


def claims_chart(study: Study, records: Sequence[Record]) -> alt.FacetChart:
    """One panel per claim; per dataset the difference or ratio, and the limit it is judged by."""
    said = {claim.text: claim for claim in study.claims}
    shown = {data.data: name for name, data in study.datasets.items()}

    models = {model.name: name for name, model in study.models.items()}

    def of_model(record: Record) -> str:
        return "" if len(study.models) < 2 else f", {models[record.model or '']}"

    def title(record: Record) -> str:
        # In studies of tables the sides are long, and the claims name them.
        return record.row if study.tabulated else f"{record.row} ({_compared(said[record.row])})"

    rows = [
        {
            "claim": title(record),
            "name": f"{shown.get(record.dataset, record.dataset)}{of_model(record)}",
            "verdict": record.verdict,
            "limit": _limit(said[record.row]),
            **value_fields(record),
        }
        for record in records
    ]
    names = list(dict.fromkeys(row["name"] for row in rows))
    panels = list(dict.fromkeys(row["claim"] for row in rows))
    verdicts = [
        one for one in VERDICTS if one not in RARE or any(row["verdict"] == one for row in rows)
    ]
    scale = alt.Scale(domain=verdicts, range=[VERDICT_COLOURS[one] for one in verdicts])
    colour = alt.Color("verdict:N", title=None, scale=scale)
    base = alt.Chart().encode(
        y=alt.Y("name:N", title=None, sort=names), color=colour, tooltip=[*tooltips(), "verdict:N"]
    )
    limit: alt.Chart = (
        alt.Chart().mark_rule(color=LIMIT, strokeDash=[4, 3]).encode(x=alt.X("min(limit):Q"))
    )
    panel = alt.LayerChart(
        layer=[limit, *_dots(base, None)],
        width=CLAIM_WIDTH,
        height=ROW_HEIGHT * len(names),
    )
    header = alt.Header(labelOrient="top", labelAnchor="start", labelAngle=0, labelPadding=4)
    chart: alt.FacetChart = panel.facet(
        row=alt.Row("claim:N", title=None, sort=panels, header=header), data=inline(rows)
    ).resolve_scale(x="independent")
    return styled(chart.properties(title=small_title(DASHED)))


def _dots(base: alt.Chart, title: str | None) -> list[alt.Chart]:
    """A dot with its interval."""
    span: alt.Chart = base.mark_rule(strokeWidth=3, opacity=0.45)
    dot: alt.Chart = base.mark_circle(size=60, opacity=1)
    return [
        span.encode(x=_x("low", title), x2="high:Q"),
        dot.encode(x=_x("value", title)),
    ]


def _x(field: str, title: str | None) -> alt.X:
    scale = alt.Scale(zero=False, nice=False, padding=12)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=AXIS)


def _kind(shown: list[str]) -> alt.Color:
    """Return the colours of measured and published values."""
    scale = alt.Scale(domain=shown, range=[NEUTRAL, PRINT][: len(shown)])
    return alt.Color("kind:N", scale=scale, title=None)


def _row(study: Study, cell: Cell, column: str, record: Record) -> dict[str, Any]:
    name = cell.variant if len(study.models) == 1 else f"{cell.model} {cell.variant}"
    row = {"dataset": cell.dataset, "name": name, **value_fields(record)}
    printed = study.published_text(column, cell)
    if printed is not None:
        value, reach = float(printed), half_last_digit(printed)
        row |= {"published": printed, "print_value": value}
        row |= {"print_low": value - reach, "print_high": value + reach}
    return row


def _compared(claim: Claim) -> str:
    column = f"{claim.column}, " if claim.column else ""
    if claim.than is None:
        return f"{column}{claim.of}".removesuffix(", ")
    return f"{column}{claim.of} {'÷' if claim.expect == 'spread lower' else '−'} {claim.than}"


def _limit(claim: Claim) -> float:
    """Return the limit of a claim; of a band its lower bound, or its only one."""
    match claim.expect:
        case "higher" | "not higher":
            return claim.limit + claim.margin
        case "lower" | "not lower":
            return claim.limit - claim.margin
        case "spread lower":
            return 1 - claim.margin
        case band:
            return next(bound for bound in BANDS[band] if math.isfinite(bound))
