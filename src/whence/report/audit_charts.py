"""The pictures of an audit, from what its stages found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import altair as alt

from whence.auditing.finding import Chart
from whence.report.charts import AGAINST, FOR, NEUTRAL, dress, inline

REFERENCE: Final = "#6b7580"
"""What others are held against: chance, or the best that is possible."""
REFERENCES: Final = ("random", "best possible")
LINES: Final = {"best possible": [6, 3], "random": [2, 3]}
WIDTH: Final = 460
INK: Final = "#1d2630"


def draw(chart: Chart, chosen: str | None) -> alt.LayerChart:
    """A finding's chart, with the recommended explainer in green."""
    return DRAWN[chart.kind](chart, chosen)


def _dots(chart: Chart, chosen: str | None) -> alt.LayerChart:
    """A dot with its interval each, the highest first; a dashed line at chance."""
    rows = sorted(chart.rows, key=lambda row: -row["value"])
    names = [str(row["name"]) for row in rows]
    base = alt.Chart(inline(list(map(dict, rows)))).encode(
        y=alt.Y("name:N", title=None, sort=names, axis=alt.Axis(ticks=False, domain=False)),
        color=_colour(names, chosen),
    )
    span: alt.Chart = base.mark_rule(strokeWidth=4, opacity=0.35).encode(
        x=alt.X("low:Q", title=chart.title, axis=_axis(chart)), x2="high:Q"
    )
    dot: alt.Chart = base.mark_circle(size=90, opacity=1).encode(x="value:Q")
    number: alt.Chart = base.mark_text(align="left", dx=8, fontSize=11).encode(
        x="high:Q", text=alt.Text("value:Q", format=_format(chart))
    )
    chance: alt.Chart = (
        alt.Chart(inline([dict(row) for row in rows if row["name"] == "random"]))
        .mark_rule(strokeDash=LINES["random"], color=REFERENCE)
        .encode(x="value:Q")
    )
    layers = [span, dot, number]
    layers = [chance, *layers] if "random" in names else layers
    return _sized(alt.LayerChart(layer=layers), WIDTH, 26 * len(rows))


def _matrix(chart: Chart, chosen: str | None) -> alt.LayerChart:
    """A tile a pair, from red for opposite through pale to blue for alike."""
    names = list(dict.fromkeys(str(row["one"]) for row in chart.rows))
    base = alt.Chart(inline(list(map(dict, chart.rows)))).encode(
        x=alt.X("other:N", title=None, sort=names, axis=alt.Axis(labelAngle=-40, ticks=False)),
        y=alt.Y("one:N", title=None, sort=names, axis=alt.Axis(ticks=False)),
    )
    scale = alt.Scale(domain=[-1, 0, 1], range=[AGAINST, "#f7f5f0", NEUTRAL], interpolate="rgb")
    tiles: alt.Chart = base.mark_rect(stroke="white").encode(
        color=alt.Color("value:Q", title=chart.title, scale=scale)
    )
    numbers: alt.Chart = base.mark_text(fontSize=11).encode(
        text=alt.Text("value:Q", format=".2f"),
        color=alt.condition("abs(datum.value) > 0.6", alt.value("white"), alt.value(INK)),
    )
    layers = alt.LayerChart(layer=[tiles, numbers])
    return _sized(layers, 42 * len(names), 28 * len(names))


def _lines(chart: Chart, chosen: str | None) -> alt.LayerChart:
    """A curve each; only the recommended one and those it is held against have a name."""
    rows = list(map(dict, chart.rows))
    names = list(dict.fromkeys(str(row["name"]) for row in rows))
    named = [name for name in names if name in REFERENCES or name == chosen]
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("x:Q", title=chart.across, axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("y:Q", title=chart.title, scale=alt.Scale(zero=True)),
        detail="name:N",
    )
    others: alt.Chart = base.transform_filter(
        alt.FieldOneOfPredicate("name", [name for name in names if name not in named])
    ).mark_line(strokeWidth=1.2, opacity=0.45, color=NEUTRAL)
    main: alt.Chart = (
        base.transform_filter(alt.FieldOneOfPredicate("name", named))
        .mark_line(strokeWidth=2.6)
        .encode(
            color=_colour(named, chosen),
            strokeDash=alt.StrokeDash(
                "name:N",
                scale=alt.Scale(domain=named, range=[LINES.get(name, [1, 0]) for name in named]),
                legend=None,
            ),
        )
    )
    ends = [
        max((row for row in rows if row["name"] == name), key=lambda r: r["x"]) for name in named
    ]
    labels: alt.Chart = (
        alt.Chart(inline(ends))
        .mark_text(align="left", dx=6, fontSize=12, fontWeight="bold")
        .encode(x="x:Q", y="y:Q", text="name:N", color=_colour(named, chosen))
    )
    return _sized(alt.LayerChart(layer=[others, main, labels]), WIDTH, 260)


DRAWN: Final[dict[str, Callable[[Chart, str | None], alt.LayerChart]]] = {
    "dots": _dots,
    "matrix": _matrix,
    "lines": _lines,
}


def _colour(names: list[str], chosen: str | None) -> alt.Color:
    colours = [
        REFERENCE if name in REFERENCES else FOR if name == chosen else NEUTRAL for name in names
    ]
    return alt.Color("name:N", scale=alt.Scale(domain=names, range=colours), legend=None)


def _axis(chart: Chart) -> alt.Axis:
    return alt.Axis(format=_format(chart, "%"), tickCount=5, grid=True, gridColor="#e9ebed")


def _format(chart: Chart, share: str = ".0%") -> str:
    """Shares as per cent, other values with two decimals."""
    highest = max(abs(float(row["value"])) for row in chart.rows)
    return share if highest <= 1 else ".2f"


def _sized(chart: alt.LayerChart, width: int, height: int) -> alt.LayerChart:
    sized: alt.LayerChart = dress(chart.properties(width=width, height=height))
    return sized


def alternative(chart: Chart) -> str:
    """The picture in words, for those who do not see it."""
    if chart.kind != "dots":
        return f"{chart.title}. {chart.reading}"
    told = ", ".join(f"{row['name']} {row['value']:.2f}" for row in chart.rows)
    return f"{chart.title}: {told}"
