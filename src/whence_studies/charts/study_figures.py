"""The figures of a study: curves, maps, shares and bars of its records, panel by panel."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import altair as alt

from whence.report.charts import AGAINST, BLANK, NEUTRAL, effect_color, effect_of, inline, styled
from whence_studies.charts.skip_charts import share_chart, share_row
from whence_studies.measurements.measurement import BarPlot, Figure, HeatMap, LinePlot, SharePlot
from whence_studies.records import Record
from whence_studies.study import Cell, Study

LIMIT = "#1d2630"
ROW_HEIGHT, PANEL_WIDTH, PANEL_HEIGHT = 26, 190, 150
PANELS_BESIDE = 3
TILE = (92, 44)
AXIS = alt.Axis(tickCount=3, labelOverlap=True, grid=True, gridOpacity=0.5, gridColor="#e4e7ea")
LINES = "lines: the 95 % interval over seeds"
FIGURES = ("value", "low", "high")


def figure_chart(study: Study, figure: Figure, records: Sequence[Record]) -> alt.FacetChart:
    """Curves, a map, shares or bars, with the records that have an interval."""
    of = [record for record in records if record.column in figure.columns]
    match figure:
        case LinePlot():
            return curves_chart(study, figure, of)
        case HeatMap():
            titles = [record for record in records if record.column in figure.titles.values()]
            return map_chart(study, figure, of, titles)
        case SharePlot():
            return shares_chart(study, figure, of)
        case BarPlot():
            labels = [record for record in records if record.column == figure.about]
            return bars_chart(study, figure, of, labels)


def curves_chart(study: Study, curves: LinePlot, records: Sequence[Record]) -> alt.FacetChart:
    """A panel a dataset and model; every line with its interval."""
    place = {column: (name, x) for name, line in curves.lines.items() for x, column in line.items()}
    rows = []
    for record in records:
        name, x = place[record.column]
        rows.append({**_where(study, record), "line": name, "x": x, **plain_figures(record)})
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
    chart = in_panels(panel, rows, ("beside", _beside(study)), ("who", _order(study)))
    return styled(chart if curves.ideal else chart.resolve_scale(y="independent"))


def map_chart(
    study: Study, shades: HeatMap, records: Sequence[Record], titles: Sequence[Record] = ()
) -> alt.FacetChart:
    """A panel a dataset and model; every cell with its value, in colours from the middle on."""
    rows = _map_rows(study, shades, records, titles)
    down, across = (list(dict.fromkeys(row[way] for row in rows)) for way in ("down", "across"))
    reach = max(abs(row["value"] - shades.middle) for row in rows) or 1.0
    base = alt.Chart().encode(
        x=alt.X("across:N", title=shades.across, sort=across, axis=_names_across(shades)),
        y=alt.Y("down:N", title=None if shades.titles else shades.down, sort=down),
        tooltip=[
            "down:N",
            "across:N",
            *(alt.Tooltip(f"{one}:Q", format=".4f") for one in FIGURES),
        ],
    )
    below = min(row["value"] for row in rows) < shades.middle
    tiles: alt.Chart = base.mark_rect(stroke="white").encode(
        color=alt.Color("value:Q", title=shades.value, scale=_from(shades.middle, reach, below))
    )
    numbers: alt.Chart = base.mark_text(fontSize=12).encode(
        text=alt.Text("value:Q", format=".3f"),
        color=alt.condition(
            f"abs(datum.value - {shades.middle}) > {0.6 * reach}",
            alt.value("white"),
            alt.value(LIMIT),
        ),
    )
    wide, high = (len(set(names)) for names in zip(*((b, a) for a, b in shades.cells), strict=True))
    panel = alt.LayerChart(layer=[tiles, numbers], width=TILE[0] * wide, height=TILE[1] * high)
    chart = in_panels(panel, rows, ("beside", _beside(study)), ("who", _order(study)))
    if not shades.titles:
        return styled(chart)
    apart: alt.FacetChart = chart.resolve_scale(x="independent", y="independent")
    # Beside titles, which are long, there is no room for what they are.
    return styled(apart.properties(title=small_title(f"down: {shades.down}")))


def _map_rows(
    study: Study, shades: HeatMap, records: Sequence[Record], titles: Sequence[Record]
) -> list[dict[str, Any]]:
    """In the order of the cells: where the data have the names, those of all panels stand so."""
    place = {column: names for names, column in shades.cells.items()}
    title_of = {(one.dataset, one.model, one.row, one.column): one.label for one in titles}
    order = list(place)
    rows = []
    for record in sorted(records, key=lambda one: order.index(one.column)):
        name, other = place[record.column]
        if shades.titles:
            of = title_of[record.dataset, record.model, record.row, shades.titles[other]]
            name, other = f"{name}. {record.label}", f"{other}: {of}"
        rows.append(
            {**_where(study, record), "down": name, "across": other, **plain_figures(record)}
        )
    return rows


def _from(middle: float, reach: float, below: bool) -> alt.Scale:
    """Colours both ways from the middle, or upwards alone."""
    return alt.Scale(
        domain=[*([middle - reach] if below else []), middle, middle + reach],
        range=[*([AGAINST] if below else []), BLANK, NEUTRAL],
        interpolate="rgb",
    )


def _names_across(shades: HeatMap) -> alt.Axis:
    """Aslant where they are titles, which are long."""
    return alt.Axis(labelAngle=-30, labelLimit=190) if shades.titles else alt.Axis(labelAngle=0)


def shares_chart(study: Study, shares: SharePlot, records: Sequence[Record]) -> alt.FacetChart:
    """Panels of bars a dataset, model and variant."""
    place = {column: names for names, column in shares.cells.items()}
    rows = []
    for record in records:
        (name, what), where = place[record.column], _where(study, record)
        value, *interval = plain_figures(record).values()
        of = f"{where['who']}, {where['beside']}"
        rows.append(share_row(of, what, name, value, (interval[0], interval[1])))
    return share_chart(rows)


def bars_chart(
    study: Study, bars: BarPlot, records: Sequence[Record], labels: Sequence[Record]
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
                "effect": effect_of(record.value or 0.0, name in bars.signed),
                **plain_figures(record),
            }
        )
    rows_of = list(dict.fromkeys(row["of"] for row in rows))
    names = list(dict.fromkeys(row["name"] for row in rows))
    places = next(iter(bars.panels.values()))
    base = alt.Chart().encode(
        y=alt.Y("name:N", title=None, sort=names), tooltip=[*tooltips(), "effect:N"]
    )
    bar_marks: alt.Chart = base.mark_bar(cornerRadiusEnd=3, height=14).encode(
        x=alt.X("value:Q", title=None, axis=AXIS), color=effect_color()
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
    return styled(chart.properties(title=small_title(LINES)))


def in_panels(
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
    cell = cell_of(study, record.dataset, record.model, record.row)
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


def cell_of(study: Study, data: str, model: str | None, variant: str) -> Cell:
    """The cell that a record is of."""
    return next(cell for cell in study.cells() if study.record_key(cell) == (data, model, variant))


def small_title(text: str) -> alt.Title:
    """What is said above a chart in its own words."""
    return alt.Title(text, fontSize=12, fontWeight="normal")


def tooltips() -> list[Any]:
    """Of a named row: its name and its figures."""
    return ["name:N", *(alt.Tooltip(f"{one}:Q", format=".4f") for one in FIGURES)]


def plain_figures(record: Record) -> dict[str, Any]:
    """The value of a record and the ends of its interval, for a chart."""
    return dict(zip(FIGURES, (record.value, *(record.interval or ())), strict=True))
