"""The figures of a study: line plots, heat maps, shares and bars of its records."""

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
PANELS_PER_ROW = 3
TILE = (92, 44)
AXIS = alt.Axis(tickCount=3, labelOverlap=True, grid=True, gridOpacity=0.5, gridColor="#e4e7ea")
LINES = "lines: 95 % intervals over seeds"
VALUE_FIELDS = ("value", "low", "high")


def figure_chart(study: Study, figure: Figure, records: Sequence[Record]) -> alt.FacetChart:
    """Draw a figure from the records that have an interval."""
    of = [record for record in records if record.column in figure.columns]
    match figure:
        case LinePlot():
            return line_chart(study, figure, of)
        case HeatMap():
            titles = [record for record in records if record.column in figure.titles.values()]
            return heat_map_chart(study, figure, of, titles)
        case SharePlot():
            return shares_chart(study, figure, of)
        case BarPlot():
            labels = [record for record in records if record.column == figure.about]
            return bars_chart(study, figure, of, labels)


def line_chart(study: Study, plot: LinePlot, records: Sequence[Record]) -> alt.FacetChart:
    """One panel per dataset and model; every line with its interval."""
    place = {column: (name, x) for name, line in plot.lines.items() for x, column in line.items()}
    rows = []
    for record in records:
        name, x = place[record.column]
        rows.append({**_panel(study, record), "line": name, "x": x, **value_fields(record)})
    base = alt.Chart().encode(
        x=alt.X("x:Q", title=plot.x, scale=alt.Scale(nice=False), axis=AXIS),
        color=alt.Color(
            "line:N",
            title=None,
            sort=list(plot.lines),
            legend=alt.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3),
        ),
        tooltip=["line:N", "x:Q", *(alt.Tooltip(f"{one}:Q", format=".4f") for one in VALUE_FIELDS)],
    )
    band: alt.Chart = base.mark_area(opacity=0.2).encode(
        y=alt.Y("low:Q", title=plot.y, scale=alt.Scale(zero=False), axis=AXIS), y2="high:Q"
    )
    line: alt.Chart = base.mark_line().encode(y="value:Q")
    layers = [band, line]
    if plot.ideal:  # y = x
        dashed = base.mark_line(strokeDash=[4, 3], strokeWidth=1.5)
        layers.append(dashed.encode(y="x:Q", color=alt.value(LIMIT)))
    panel = alt.LayerChart(layer=layers, width=PANEL_WIDTH, height=PANEL_HEIGHT)
    chart = in_panels(
        panel,
        rows,
        ("panel_column", _columns_of_panels(study)),
        ("panel_row", _rows_of_panels(study)),
    )
    return styled(chart if plot.ideal else chart.resolve_scale(y="independent"))


def heat_map_chart(
    study: Study, shades: HeatMap, records: Sequence[Record], titles: Sequence[Record] = ()
) -> alt.FacetChart:
    """One panel per dataset and model; every cell with its value, coloured from the middle."""
    rows = _map_rows(study, shades, records, titles)
    down, across = (list(dict.fromkeys(row[way] for row in rows)) for way in ("down", "across"))
    reach = max(abs(row["value"] - shades.middle) for row in rows) or 1.0
    base = alt.Chart().encode(
        x=alt.X("across:N", title=shades.across, sort=across, axis=_names_across(shades)),
        y=alt.Y("down:N", title=None if shades.titles else shades.down, sort=down),
        tooltip=[
            "down:N",
            "across:N",
            *(alt.Tooltip(f"{one}:Q", format=".4f") for one in VALUE_FIELDS),
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
    chart = in_panels(
        panel,
        rows,
        ("panel_column", _columns_of_panels(study)),
        ("panel_row", _rows_of_panels(study)),
    )
    if not shades.titles:
        return styled(chart)
    apart: alt.FacetChart = chart.resolve_scale(x="independent", y="independent")
    # Long titles leave no room for an axis title.
    return styled(apart.properties(title=small_title(f"down: {shades.down}")))


def _map_rows(
    study: Study, shades: HeatMap, records: Sequence[Record], titles: Sequence[Record]
) -> list[dict[str, Any]]:
    """Return the cells in their order, with names from the data if the map takes them there."""
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
            {**_panel(study, record), "down": name, "across": other, **value_fields(record)}
        )
    return rows


def _from(middle: float, reach: float, below: bool) -> alt.Scale:
    """Return a scale with colours on both sides of the middle, or above it only."""
    return alt.Scale(
        domain=[*([middle - reach] if below else []), middle, middle + reach],
        range=[*([AGAINST] if below else []), BLANK, NEUTRAL],
        interpolate="rgb",
    )


def _names_across(shades: HeatMap) -> alt.Axis:
    """Return a slanted axis for long titles, otherwise a level one."""
    return alt.Axis(labelAngle=-30, labelLimit=190) if shades.titles else alt.Axis(labelAngle=0)


def shares_chart(study: Study, shares: SharePlot, records: Sequence[Record]) -> alt.FacetChart:
    """Panels of bars for each dataset, model and variant."""
    place = {column: names for names, column in shares.cells.items()}
    rows = []
    for record in records:
        (name, what), where = place[record.column], _panel(study, record)
        value, *interval = value_fields(record).values()
        of = f"{where['panel_row']}, {where['panel_column']}"
        rows.append(share_row(of, what, name, value, (interval[0], interval[1])))
    return share_chart(rows)


def bars_chart(
    study: Study, bars: BarPlot, records: Sequence[Record], labels: Sequence[Record]
) -> alt.FacetChart:
    """One row of panels per dataset and model, headed by what the bars explain."""
    place = {column: (name, bar) for name, of in bars.panels.items() for bar, column in of.items()}
    about = {(one.dataset, one.model, one.row): one.label for one in labels}
    rows = []
    for record in records:
        name, bar = place[record.column]
        where = _panel(study, record)
        explained = about[record.dataset, record.model, record.row]
        rows.append(
            {
                "of": f"{where['panel_column']}, {where['panel_row']}: why {explained}?",
                "panel": name,
                # Numbered, so that an item that occurs twice in the history has two bars.
                "name": f"{bar}. {record.label}",
                "effect": effect_of(record.value or 0.0, name in bars.signed),
                **value_fields(record),
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
    """Return a panel for each pair of two fields, as a grid if every pair exists.

    Vega lays out existing panels one after the other, so that in a grid with gaps they would stand
    under the headings of others. In that case every panel has its own name.
    """
    (panel_column, columns), (below, lines) = across, down
    there = {(row[below], row[panel_column]) for row in rows}
    shown = [
        [one for one in names if any(one in pair for pair in there)] for names in (lines, columns)
    ]
    if len(there) == len(shown[0]) * len(shown[1]):
        grid: alt.FacetChart = panel.facet(
            column=alt.Column(f"{panel_column}:N", title=None, sort=columns),
            row=alt.Row(f"{below}:N", title=None, sort=lines),
            data=inline(rows),
        )
        return grid
    named = {pair: ", ".join(pair) for pair in product(lines, columns) if pair in there}
    for row in rows:
        row["panel"] = named[row[below], row[panel_column]]
    chart: alt.FacetChart = panel.facet(
        facet=alt.Facet("panel:N", title=None, sort=list(named.values())),
        columns=PANELS_PER_ROW,
        data=inline(rows),
    )
    return chart


def _panel(study: Study, record: Record) -> dict[str, str]:
    """Return the panel of a record, with its variant if the study has several."""
    cell = cell_of(study, record.dataset, record.model, record.row)
    panel_column = cell.variant if _variants_across(study) else cell.dataset
    return {"panel_column": panel_column, "panel_row": _panel_row(study, cell)}


def _variants_across(study: Study) -> bool:
    """Return whether variants are the columns of panels, because there is one dataset."""
    return len(study.datasets) == 1 and len(study.variants) > 1


def _columns_of_panels(study: Study) -> list[str]:
    return list(study.variants if _variants_across(study) else study.datasets)


def _panel_row(study: Study, cell: Cell) -> str:
    said = len(study.variants) > 1 and not _variants_across(study)
    return f"{cell.model} {cell.variant}" if said else cell.model


def _rows_of_panels(study: Study) -> list[str]:
    return list(dict.fromkeys(_panel_row(study, cell) for cell in study.cells()))


def cell_of(study: Study, data: str, model: str | None, variant: str) -> Cell:
    """Return the cell that a record belongs to."""
    return next(cell for cell in study.cells() if study.record_key(cell) == (data, model, variant))


def small_title(text: str) -> alt.Title:
    """Return the key of a chart, to stand above it."""
    return alt.Title(text, fontSize=12, fontWeight="normal")


def tooltips() -> list[Any]:
    """Return the tooltip of a named row: its name and its values."""
    return ["name:N", *(alt.Tooltip(f"{one}:Q", format=".4f") for one in VALUE_FIELDS)]


def value_fields(record: Record) -> dict[str, Any]:
    """Return the value of a record and the ends of its interval, for a chart."""
    return dict(zip(VALUE_FIELDS, (record.value, *(record.interval or ())), strict=True))
