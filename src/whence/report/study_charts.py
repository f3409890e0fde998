"""Charts of a study: what was found beside what is published, and what becomes of the claims."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import product
from typing import Any

import altair as alt

from whence.report.charts import AGAINST, BLANK, FOR, NEUTRAL, dress, inline, side, speaking
from whence.report.share_charts import share_chart, share_row
from whence.report.skip_charts import selection_charts
from whence.report.study import CLAIMS, group_title
from whence.studies.claims import BANDS, FAILS, HOLDS, UNDECIDED
from whence.studies.found import Bars, Curves, Figure, Map, Shares
from whence.studies.measurements import figures_of
from whence.studies.records import Record
from whence.studies.results import half_a_unit
from whence.studies.study import Cell, Claim, Study

HERE, PUBLISHED = "here, with the 95 % interval over seeds", "published, as far as it is printed"
PRINT, LIMIT, OPEN = "#d9a441", "#1d2630", "#8a94a0"
ROW_HEIGHT, PANEL_WIDTH, PANEL_HEIGHT, CLAIM_WIDTH = 26, 190, 150, 560
PANELS_BESIDE = 3
TILE = (92, 44)
AXIS = alt.Axis(tickCount=3, labelOverlap=True, grid=True, gridOpacity=0.5, gridColor="#e4e7ea")
DASHED = "dashed: the limit to one side of which the whole interval must lie"
LINES = "lines: the 95 % interval over seeds"
FIGURES = ("value", "low", "high")
SPELT = {
    **{"ρ": "rho", "μ": "mu", "α": "alpha", "φ": "phi", "∇": "gradient", "*": "star", "′": "prime"},
    **{"₀": "0", "₁": "1", "₂": "2"},
}


def study_charts(study: Study, records: Sequence[Record]) -> dict[str, alt.FacetChart]:
    """By the title of the table beside it, as far as run."""
    claims = {claim.text for claim in study.claims}
    found = [record for record in records if record.interval]
    judged = [record for record in found if record.row in claims]
    of_claims = {CLAIMS: claims_chart(study, judged)} if judged else {}
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


def group_chart(
    study: Study, records: Sequence[Record], group: str, variant: str
) -> alt.FacetChart:
    """A panel a dataset and model; for each column a dot with its interval, beside the print."""
    own = [one for one in records if one.row == variant and one.column in study.groups[group]]
    rows = []
    for record in own:
        cell = _cell_of(study, record.dataset, record.model, variant)
        figures = _row(study, cell, record.column, record)
        rows.append({**figures, "name": record.column, "model": cell.model})
    layers, height = _beside_print(rows, None)
    panel = alt.LayerChart(layer=layers, width=PANEL_WIDTH, height=height)
    across, down = ("dataset", list(study.datasets)), ("model", list(study.models))
    return dress(_in_panels(panel, rows, across, down))


def figure_chart(study: Study, figure: Figure, records: Sequence[Record]) -> alt.FacetChart:
    """Curves, a map, shares or bars, with the records that have an interval."""
    of = [record for record in records if record.column in figure.columns]
    match figure:
        case Curves():
            return curves_chart(study, figure, of)
        case Map():
            return map_chart(study, figure, of)
        case Shares():
            return shares_chart(study, figure, of)
        case Bars():
            labels = [record for record in records if record.column == figure.about]
            return bars_chart(study, figure, of, labels)


def curves_chart(study: Study, curves: Curves, records: Sequence[Record]) -> alt.FacetChart:
    """A panel a dataset and model; every line with its interval."""
    place = {column: (name, x) for name, line in curves.lines.items() for x, column in line.items()}
    rows = []
    for record in records:
        name, x = place[record.column]
        rows.append({**_where(study, record), "line": name, "x": x, **_figures(record)})
    base = alt.Chart().encode(
        x=alt.X("x:Q", title=curves.x, scale=alt.Scale(nice=False), axis=AXIS),
        color=alt.Color(
            "line:N",
            title=None,
            sort=list(curves.lines),
            legend=alt.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3),
        ),
        tooltip=["line:N", "x:Q", *(alt.Tooltip(f"{one}:Q", format=".4f") for one in FIGURES)],
    )
    band: alt.Chart = base.mark_area(opacity=0.2).encode(
        y=alt.Y("low:Q", title=curves.y, scale=alt.Scale(zero=False), axis=AXIS), y2="high:Q"
    )
    line: alt.Chart = base.mark_line().encode(y="value:Q")
    layers = [band, line]
    if curves.ideal:  # y = x
        dashed = base.mark_line(strokeDash=[4, 3], strokeWidth=1.5)
        layers.append(dashed.encode(y="x:Q", color=alt.value(LIMIT)))
    panel = alt.LayerChart(layer=layers, width=PANEL_WIDTH, height=PANEL_HEIGHT)
    chart = _in_panels(panel, rows, ("beside", _beside(study)), ("who", _order(study)))
    return dress(chart if curves.ideal else chart.resolve_scale(y="independent"))


def map_chart(study: Study, shades: Map, records: Sequence[Record]) -> alt.FacetChart:
    """A panel a dataset and model; every cell with its value, in colours from the middle on."""
    place = {column: names for names, column in shades.cells.items()}
    down, across = (list(dict.fromkeys(names)) for names in zip(*shades.cells, strict=True))
    rows = []
    for record in records:
        name, other = place[record.column]
        rows.append({**_where(study, record), "down": name, "across": other, **_figures(record)})
    reach = max(abs(row["value"] - shades.middle) for row in rows) or 1.0
    base = alt.Chart().encode(
        x=alt.X("across:N", title=shades.across, sort=across, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("down:N", title=shades.down, sort=down),
        tooltip=[
            "down:N",
            "across:N",
            *(alt.Tooltip(f"{one}:Q", format=".4f") for one in FIGURES),
        ],
    )
    below = min(row["value"] for row in rows) < shades.middle
    scale = alt.Scale(
        domain=[*([shades.middle - reach] if below else []), shades.middle, shades.middle + reach],
        range=[*([AGAINST] if below else []), BLANK, NEUTRAL],
        interpolate="rgb",
    )
    tiles: alt.Chart = base.mark_rect(stroke="white").encode(
        color=alt.Color("value:Q", title=shades.value, scale=scale)
    )
    numbers: alt.Chart = base.mark_text(fontSize=12).encode(
        text=alt.Text("value:Q", format=".3f"),
        color=alt.condition(
            f"abs(datum.value - {shades.middle}) > {0.6 * reach}",
            alt.value("white"),
            alt.value(LIMIT),
        ),
    )
    panel = alt.LayerChart(
        layer=[tiles, numbers], width=TILE[0] * len(across), height=TILE[1] * len(down)
    )
    return dress(_in_panels(panel, rows, ("beside", _beside(study)), ("who", _order(study))))


def shares_chart(study: Study, shares: Shares, records: Sequence[Record]) -> alt.FacetChart:
    """Panels of bars a dataset, model and variant."""
    place = {column: names for names, column in shares.cells.items()}
    rows = []
    for record in records:
        (name, what), where = place[record.column], _where(study, record)
        value, *interval = _figures(record).values()
        of = f"{where['who']}, {where['beside']}"
        rows.append(share_row(of, what, name, value, (interval[0], interval[1])))
    return share_chart(rows)


def bars_chart(
    study: Study, bars: Bars, records: Sequence[Record], labels: Sequence[Record]
) -> alt.FacetChart:
    """A row of panels a dataset and model, headed by what the bars speak of."""
    place = {column: (name, bar) for name, of in bars.panels.items() for bar, column in of.items()}
    about = {(one.dataset, one.model, one.row): one.label for one in labels}
    rows = []
    for record in records:
        name, bar = place[record.column]
        where = _where(study, record)
        explained = about[record.dataset, record.model, record.row]
        rows.append(
            {
                "of": f"{where['beside']}, {where['who']}: why {explained}?",
                "panel": name,
                # Numbered, so that an item that stands in the history twice has two bars.
                "name": f"{bar}. {record.label}",
                "speaks": side(record.value or 0.0, name in bars.signed),
                **_figures(record),
            }
        )
    rows_of = list(dict.fromkeys(row["of"] for row in rows))
    names = list(dict.fromkeys(row["name"] for row in rows))
    places = next(iter(bars.panels.values()))
    base = alt.Chart().encode(
        y=alt.Y("name:N", title=None, sort=names), tooltip=[*_tooltips(), "speaks:N"]
    )
    bar_marks: alt.Chart = base.mark_bar(cornerRadiusEnd=3, height=14).encode(
        x=alt.X("value:Q", title=None, axis=AXIS), color=speaking()
    )
    span: alt.Chart = base.mark_rule(strokeWidth=1.5, color=LIMIT, opacity=0.6).encode(
        x=alt.X("low:Q", title=None), x2="high:Q"
    )
    panel = alt.LayerChart(
        layer=[bar_marks, span], width=PANEL_WIDTH, height=ROW_HEIGHT * len(places)
    )
    chart: alt.FacetChart = panel.facet(
        column=alt.Column("panel:N", title=None, sort=list(bars.panels)),
        row=alt.Row("of:N", title=None, sort=rows_of),
        data=inline(rows),
    ).resolve_scale(x="independent", y="independent" if len(rows_of) > 1 else "shared")
    return dress(chart.properties(title=_small_title(LINES)))


def _in_panels(
    panel: alt.LayerChart,
    rows: list[dict[str, Any]],
    across: tuple[str, list[str]],
    down: tuple[str, list[str]],
) -> alt.FacetChart:
    """A panel for each pair of two fields, in a grid of both where every pair is there.

    Vega lays out the panels it has one after the other: a grid with gaps would have them below
    headings of others. Panels of such are named one by one.
    """
    (beside, columns), (below, lines) = across, down
    there = {(row[below], row[beside]) for row in rows}
    shown = [
        [one for one in names if any(one in pair for pair in there)] for names in (lines, columns)
    ]
    if len(there) == len(shown[0]) * len(shown[1]):
        grid: alt.FacetChart = panel.facet(
            column=alt.Column(f"{beside}:N", title=None, sort=columns),
            row=alt.Row(f"{below}:N", title=None, sort=lines),
            data=inline(rows),
        )
        return grid
    named = {pair: ", ".join(pair) for pair in product(lines, columns) if pair in there}
    for row in rows:
        row["panel"] = named[row[below], row[beside]]
    chart: alt.FacetChart = panel.facet(
        facet=alt.Facet("panel:N", title=None, sort=list(named.values())),
        columns=PANELS_BESIDE,
        data=inline(rows),
    )
    return chart


def _where(study: Study, record: Record) -> dict[str, str]:
    """The panel that a record is drawn in; the variant is said where there are several."""
    cell = _cell_of(study, record.dataset, record.model, record.row)
    beside = cell.variant if _variants_beside(study) else cell.dataset
    return {"beside": beside, "who": _who(study, cell)}


def _variants_beside(study: Study) -> bool:
    """Whether variants stand side by side, where a single dataset does not."""
    return len(study.datasets) == 1 and len(study.variants) > 1


def _beside(study: Study) -> list[str]:
    return list(study.variants if _variants_beside(study) else study.datasets)


def _who(study: Study, cell: Cell) -> str:
    said = len(study.variants) > 1 and not _variants_beside(study)
    return f"{cell.model} {cell.variant}" if said else cell.model


def _order(study: Study) -> list[str]:
    return list(dict.fromkeys(_who(study, cell) for cell in study.cells()))


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

    models = {model.name: name for name, model in study.models.items()}

    def of_model(record: Record) -> str:
        return "" if len(study.models) < 2 else f", {models[record.model or '']}"

    def title(record: Record) -> str:
        # Of tables the sides are long to say, and the claims say them.
        return record.row if study.tabulated else f"{record.row} ({_compared(said[record.row])})"

    rows = [
        {
            "claim": title(record),
            "name": f"{shown.get(record.dataset, record.dataset)}{of_model(record)}",
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
    return dress(chart.properties(title=_small_title(DASHED)))


def _small_title(text: str) -> alt.Title:
    return alt.Title(text, fontSize=12, fontWeight="normal")


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
    column = f"{claim.column}, " if claim.column else ""
    if claim.than is None:
        return f"{column}{claim.of}".removesuffix(", ")
    return f"{column}{claim.of} {'÷' if claim.expect == 'spread lower' else '−'} {claim.than}"


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
    """For the name of a file, which any machine can have: the papers' symbols are spelt out."""
    spelt = "".join(f" {SPELT[one]} " if one in SPELT else one for one in title.lower())
    return re.sub(r"[^a-z0-9]+", "-", spelt).strip("-")
