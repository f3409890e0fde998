"""Charts of a study: what was found beside what is published, and what becomes of the claims."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import altair as alt

from whence.report.charts import AGAINST, FOR, NEUTRAL, dress, inline
from whence.report.study import CLAIMS
from whence.studies.claims import BANDS, FAILS, HOLDS, UNDECIDED
from whence.studies.found import Curves
from whence.studies.measurements import curves_of
from whence.studies.records import Record
from whence.studies.results import half_a_unit
from whence.studies.study import Cell, Claim, Study

HERE, PUBLISHED = "here, with the 95 % interval over seeds", "published, as far as it is printed"
PRINT, LIMIT, OPEN = "#d9a441", "#1d2630", "#8a94a0"
ROW_HEIGHT, PANEL_WIDTH, PANEL_HEIGHT, CLAIM_WIDTH = 26, 190, 150, 560
AXIS = alt.Axis(tickCount=3, labelOverlap=True, grid=True, gridOpacity=0.5, gridColor="#e4e7ea")
DASHED = "dashed: the limit to one side of which the whole interval must lie"
FIGURES = ("value", "low", "high")


def study_charts(study: Study, records: Sequence[Record]) -> dict[str, alt.FacetChart]:
    """By the title of the table beside it, as far as run."""
    claims = {claim.text for claim in study.claims}
    found = [record for record in records if record.interval]
    curves = curves_of(study)
    points = {column for one in curves.values() for column in one.columns}
    measured = [one for one in found if one.row not in claims and one.column not in points]
    if study.across == "columns":
        shown = dict.fromkeys(record.row for record in measured)
        charts = {variant: variant_chart(study, measured, variant) for variant in shown}
    else:
        columns = dict.fromkeys(record.column for record in measured)
        charts = {column: measure_chart(study, records, column) for column in columns}
    for one in curves.values():
        if drawn := [record for record in found if record.column in one.columns]:
            charts[one.title] = curves_chart(study, one, drawn)
    judged = [record for record in found if record.row in claims]
    return {**charts, CLAIMS: claims_chart(study, judged)} if judged else charts


def measure_chart(study: Study, records: Sequence[Record], column: str) -> alt.FacetChart:
    """A panel a dataset; for each variant a dot with its interval, on the band of the print."""
    found = {(one.dataset, one.model, one.row): one for one in records if one.column == column}
    rows = [
        _row(study, cell, column, found[study.record_key(cell)])
        for cell in study.cells()
        if found[study.record_key(cell)].interval
    ]
    layers, height = _beside_print(rows, column)
    panel = alt.LayerChart(layer=layers, width=PANEL_WIDTH, height=height)
    chart: alt.FacetChart = panel.facet(
        column=alt.Column("dataset:N", title=None, sort=list(study.datasets)), data=inline(rows)
    ).resolve_scale(x="independent")
    return dress(chart)


def variant_chart(study: Study, records: Sequence[Record], variant: str) -> alt.FacetChart:
    """A panel a dataset and model; for each column a dot with its interval, beside the print."""
    found = {(one.dataset, one.model, one.row, one.column): one for one in records}
    rows = []
    for (dataset, model, row, column), record in found.items():
        cell = _cell_of(study, dataset, model, row)
        if row == variant:
            figures = _row(study, cell, column, record)
            rows.append({**figures, "name": column, "model": cell.model})
    layers, height = _beside_print(rows, None)
    panel = alt.LayerChart(layer=layers, width=PANEL_WIDTH, height=height)
    chart: alt.FacetChart = panel.facet(
        column=alt.Column("dataset:N", title=None, sort=list(study.datasets)),
        row=alt.Row("model:N", title=None, sort=list(study.models), header=alt.Header()),
        data=inline(rows),
    )
    return dress(chart)


def curves_chart(study: Study, curves: Curves, records: Sequence[Record]) -> alt.FacetChart:
    """A panel a dataset and model; every line with its interval."""
    place = {column: (name, x) for name, line in curves.lines.items() for x, column in line.items()}
    rows = []
    for record in records:
        cell = _cell_of(study, record.dataset, record.model, record.row)
        name, x = place[record.column]
        who = f"{cell.model} {cell.variant}" if len(study.variants) > 1 else cell.model
        rows.append({"dataset": cell.dataset, "who": who, "line": name, "x": x, **_figures(record)})
    across = list(dict.fromkeys(f"{cell.model} {cell.variant}" for cell in study.cells()))
    order = across if len(study.variants) > 1 else list(study.models)
    base = alt.Chart().encode(
        x=alt.X("x:Q", title=curves.x, scale=alt.Scale(nice=False), axis=AXIS),
        color=alt.Color("line:N", title=None, sort=list(curves.lines)),
        tooltip=["line:N", "x:Q", *(alt.Tooltip(f"{one}:Q", format=".4f") for one in FIGURES)],
    )
    interpolate: Any = "step-after" if curves.steps else "linear"
    band: alt.Chart = base.mark_area(opacity=0.2, interpolate=interpolate).encode(
        y=alt.Y("low:Q", title=curves.y, scale=alt.Scale(zero=False), axis=AXIS), y2="high:Q"
    )
    line: alt.Chart = base.mark_line(interpolate=interpolate).encode(y="value:Q")
    panel = alt.LayerChart(layer=[band, line], width=PANEL_WIDTH, height=PANEL_HEIGHT)
    chart: alt.FacetChart = panel.facet(
        column=alt.Column("dataset:N", title=None, sort=list(study.datasets)),
        row=alt.Row("who:N", title=None, sort=order),
        data=inline(rows),
    ).resolve_scale(y="independent")
    return dress(chart)


def _cell_of(study: Study, data: str, model: str | None, variant: str) -> Cell:
    """The cell that a record is of."""
    return next(cell for cell in study.cells() if study.record_key(cell) == (data, model, variant))


def _beside_print(rows: list[dict[str, Any]], column: str | None) -> tuple[list[alt.Chart], int]:
    """The layers of a panel of named rows, and its height."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    shown = [HERE, PUBLISHED] if any("published" in row for row in rows) else [HERE]
    base = alt.Chart().encode(
        y=alt.Y("name:N", title=None, sort=names),
        color=_kind(shown),
        tooltip=["dataset:N", *_tooltips(), *(["published:N"] if PUBLISHED in shown else [])],
    )
    ours = base.transform_calculate(kind=repr(HERE))
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
    """A panel a claim; for each dataset the difference or ratio, and the limit it is judged by."""
    said = {claim.text: claim for claim in study.claims}
    shown = {data.data: name for name, data in study.datasets.items()}

    def of_model(record: Record) -> str:
        return "" if len(study.models) == 1 else f", {record.model}"

    rows = [
        {
            "claim": f"{record.row} ({record.column}, {_compared(said[record.row])})",
            "name": f"{shown[record.dataset]}{of_model(record)}",
            "verdict": record.verdict,
            "limit": _limit(said[record.row]),
            **_figures(record),
        }
        for record in records
    ]
    names = list(dict.fromkeys(row["name"] for row in rows))
    panels = list(dict.fromkeys(row["claim"] for row in rows))
    colour = alt.Color(
        "verdict:N",
        title=None,
        scale=alt.Scale(domain=[HOLDS, UNDECIDED, FAILS], range=[FOR, OPEN, AGAINST]),
    )
    base = alt.Chart().encode(
        y=alt.Y("name:N", title=None, sort=names), color=colour, tooltip=[*_tooltips(), "verdict:N"]
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
    return dress(chart.properties(title=alt.Title(DASHED, fontSize=12, fontWeight="normal")))


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
    """The colour of what is shown, which the legend names."""
    scale = alt.Scale(domain=shown, range=[NEUTRAL, PRINT][: len(shown)])
    return alt.Color("kind:N", scale=scale, title=None)


def _tooltips() -> list[Any]:
    return ["name:N", *(alt.Tooltip(f"{one}:Q", format=".4f") for one in FIGURES)]


def _row(study: Study, cell: Cell, column: str, record: Record) -> dict[str, Any]:
    name = cell.variant if len(study.models) == 1 else f"{cell.model} {cell.variant}"
    row = {"dataset": cell.dataset, "name": name, **_figures(record)}
    printed = study.printed(column, cell)
    if printed is not None:
        value, reach = float(printed), half_a_unit(printed)
        row |= {"published": printed, "print_value": value}
        row |= {"print_low": value - reach, "print_high": value + reach}
    return row


def _figures(record: Record) -> dict[str, Any]:
    return dict(zip(FIGURES, (record.value, *(record.interval or ())), strict=True))


def _compared(claim: Claim) -> str:
    if claim.than is None:
        return str(claim.of)
    return f"{claim.of} {'÷' if claim.expect == 'spread lower' else '−'} {claim.than}"


def _limit(claim: Claim) -> float:
    """What the interval must keep to one side of; of a band its lower bound, or the only one."""
    match claim.expect:
        case "higher" | "not higher":
            return claim.limit + claim.margin
        case "lower" | "not lower":
            return claim.limit - claim.margin
        case "spread lower":
            return 1 - claim.margin
        case band:
            return next(bound for bound in BANDS[band] if math.isfinite(bound))


def slug(title: str) -> str:
    """For the name of a file."""
    return re.sub(r"\W+", "-", title.lower()).strip("-")
