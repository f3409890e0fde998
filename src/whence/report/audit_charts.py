"""The charts of an audit, drawn from the rows of its findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import altair as alt

from whence.maps import learned_map as maps
from whence.report.charts import (
    FOR,
    NEUTRAL,
    inline,
    matrix_chart,
    reliability_panels,
    styled,
)
from whence.report.map_charts import points_chart
from whence.report.trust_charts import line_panel
from whence.trust.audit.finding import Chart
from whence.trust.audit.words import percent

REFERENCE: Final = "#6b7580"
"""The colour of what explainers are compared with: random, or the best order found."""
REFERENCES: Final = ("best found", "random", "popularity alone")
OTHERS: Final = "other explainers"
NO_GROUP: Final = (maps.OTHERS, maps.SEVERAL)
FAINT: Final = "#a9b6c8"
NAMES: Final = alt.Axis(ticks=False, domain=False, labelPadding=8)
GRID: Final = "#e9ebed"
LINES: Final = {"best found": [6, 3], "random": [2, 3]}
WIDTH: Final = 300
"""Narrow, for phones; larger screens scale it up."""


Drawn = alt.LayerChart | alt.HConcatChart


def draw(chart: Chart, chosen: str | None) -> Drawn:
    """Return a finding's chart, with the recommended explainer in green."""
    return DRAWN[chart.kind](chart, chosen)


def _dots(chart: Chart, chosen: str | None) -> alt.LayerChart:
    """Draw a dot with its interval per name, the highest first, and a dashed line at random."""
    ranked = sorted(chart.rows, key=lambda row: -row["value"])
    share = max(abs(float(row["value"])) for row in ranked) <= 1
    rows = [
        {
            **row,
            "label": percent(row["value"]) if share else f"{row['value']:.2f}",
            "end": row["value"] if row["high"] is None else row["high"],
        }
        for row in ranked
    ]
    names = [str(row["name"]) for row in rows]
    base = alt.Chart(inline(rows)).encode(
        y=alt.Y("name:N", title=None, sort=names, axis=NAMES),
        color=_colour(names, chosen),
    )
    axis = alt.Axis(format="%" if share else ".2f", tickCount=4, grid=True, gridColor=GRID)
    span: alt.Chart = base.mark_rule(strokeWidth=4, opacity=0.35).encode(
        x=alt.X("low:Q", title=chart.title, axis=axis), x2="high:Q"
    )
    dot: alt.Chart = base.mark_circle(size=90, opacity=1).encode(x="value:Q")
    number: alt.Chart = base.mark_text(align="left", dx=8, fontSize=11).encode(
        x="end:Q", text="label:N"
    )
    at_random: alt.Chart = (
        alt.Chart(inline([row for row in rows if row["name"] == "random"]))
        .mark_rule(strokeDash=LINES["random"], color=REFERENCE)
        .encode(x="value:Q")
    )
    layers = [span, dot, number]
    layers = [at_random, *layers] if "random" in names else layers
    return _sized(alt.LayerChart(layer=layers), WIDTH, 24 * len(rows))


def _matrix(chart: Chart, chosen: str | None) -> alt.LayerChart:
    """Draw a tile per pair."""
    return matrix_chart(list(map(dict, chart.rows)), chart.title)


def _lines(chart: Chart, chosen: str | None) -> alt.LayerChart:
    """Draw a curve per explainer; only the recommended one and the references are named."""
    named = [*([chosen] if chosen else []), *REFERENCES, OTHERS]
    rows = [{**row, "shown": row["name"] if row["name"] in named else OTHERS} for row in chart.rows]
    domain = [name for name in named if any(row["shown"] == name for row in rows)]
    legend = alt.Legend(
        title=None,
        symbolType="stroke",
        symbolSize=400,
        symbolStrokeWidth=2.5,
        columns=2,
        columnPadding=24,
    )
    lines: alt.Chart = (
        alt.Chart(inline(rows))
        .mark_line()
        .encode(
            x=alt.X("x:Q", title=chart.across, axis=alt.Axis(format="%", tickCount=5)),
            y=alt.Y(
                "y:Q", title=chart.title, axis=alt.Axis(tickCount=4, grid=True, gridColor=GRID)
            ),
            detail="name:N",
            color=_colour(domain, chosen, "shown", legend),
            strokeDash=alt.StrokeDash(
                "shown:N",
                scale=alt.Scale(domain=domain, range=[LINES.get(one, [1, 0]) for one in domain]),
                legend=legend,
            ),
            strokeWidth=alt.condition(
                alt.FieldEqualPredicate(OTHERS, "shown"), alt.value(1.2), alt.value(2.8)
            ),
        )
    )
    return _sized(alt.LayerChart(layer=[lines]), 1.2 * WIDTH, 200)


def _reliability(chart: Chart, chosen: str | None) -> alt.HConcatChart:
    """Draw a reliability diagram per panel, all on the same axis."""
    panels = _panels(chart)
    return reliability_panels(panels, dict.fromkeys(panels, _ends(chart)))


def _bins(chart: Chart, chosen: str | None) -> alt.HConcatChart:
    """Draw lines over bins, in a panel per kind."""
    panels = [
        line_panel(
            rows, list(dict.fromkeys(row["line"] for row in rows)), _ends(chart), chart.across, name
        )
        for name, rows in _panels(chart).items()
    ]
    return styled(alt.HConcatChart(hconcat=panels))


def _points(chart: Chart, chosen: str | None) -> alt.HConcatChart:
    """Draw a map per panel, each with its own groups."""
    panels = [
        points_chart(rows, _in_colour(rows), chart.across, name, WIDTH)
        for name, rows in _panels(chart).items()
    ]
    maps_drawn: alt.HConcatChart = alt.HConcatChart(hconcat=panels).resolve_scale(
        color="independent"
    )
    return styled(maps_drawn)


def _in_colour(rows: list[dict[str, Any]]) -> list[str]:
    """Return the groups that a map shows in colour."""
    return [name for name in dict.fromkeys(row["of"] for row in rows) if name not in NO_GROUP]


def _panels(chart: Chart) -> dict[str, list[dict[str, Any]]]:
    names = dict.fromkeys(str(row["panel"]) for row in chart.rows)
    return {name: [dict(row) for row in chart.rows if row["panel"] == name] for name in names}


def _ends(chart: Chart) -> tuple[float, float]:
    """Return the first and the last edge of the bins that have cases."""
    first, last = (min(row["from"] for row in chart.rows), max(row["to"] for row in chart.rows))
    return (0.0, 1.0) if first == last else (first, last)


DRAWN: Final[dict[str, Callable[[Chart, str | None], Drawn]]] = {
    "dots": _dots,
    "matrix": _matrix,
    "lines": _lines,
    "reliability": _reliability,
    "bins": _bins,
    "points": _points,
}


def _colour(
    names: list[str], chosen: str | None, field: str = "name", legend: alt.Legend | None = None
) -> alt.Color:
    known = {**dict.fromkeys(REFERENCES, REFERENCE), OTHERS: FAINT, chosen or "": FOR}
    colours = [known.get(name, NEUTRAL) for name in names]
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=names, range=colours), legend=legend)


def _sized(chart: alt.LayerChart, width: float, height: int) -> alt.LayerChart:
    sized: alt.LayerChart = styled(chart.properties(width=width, height=height))
    return sized


def alternative(chart: Chart) -> str:
    """Return the chart in words, for screen readers."""
    if chart.kind != "dots":
        return f"{chart.title}. {chart.reading}"
    values = ", ".join(f"{row['name']} {row['value']:.2f}" for row in chart.rows)
    return f"{chart.title}: {values}"
