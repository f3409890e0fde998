"""Charts, drawn from one definition as PNG, SVG or interactive HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import altair as alt
import vl_convert

from whence.errors import LONGEST_MESSAGE
from whence.explanation import Explanation
from whence.measure import Measure, SeedMean
from whence.reasons.amounts import before_and_after
from whence.reasons.reason import Reason
from whence.text import shortened, visible
from whence.trust.calibration.reliability import Reliability

FOR, AGAINST, NEUTRAL, BLANK = "#2a7f62", "#b3423a", "#3d5a80", "#f7f5f0"
FONT = "system-ui, sans-serif"
PADDING = {"left": 32, "right": 24, "top": 6, "bottom": 6}  # the font of a reader may be wider

LABEL_WIDTH = 280
DIAGRAM, COUNTS = (260, 220), 50
"""The size of a reliability diagram, and the height of the counts below it."""
DIAGONAL = "dashed: perfect calibration; below it the model is overconfident; lines: 95 % intervals"
LONGEST_TEXT = 300
"""Longer text is shortened: the renderer measures about a thousand characters a second."""
BACKSLASH = "\u29f5"
"""A character that looks like a backslash."""
FEW_TICKS = alt.Axis(tickCount=2, format="~s")

C = TypeVar("C", alt.Chart, alt.LayerChart)
D = TypeVar("D", alt.Chart, alt.LayerChart, alt.FacetChart, alt.HConcatChart, alt.ConcatChart)


def interval_chart(measured: Mapping[str, Measure | SeedMean], title: str) -> alt.LayerChart:
    """Return a dot with its interval for each name."""
    rows = [
        {"name": name, "value": measure.value, "low": low, "high": high}
        for name, measure in measured.items()
        for low, high in [measure.bounds]
    ]
    base = alt.Chart(inline(rows)).encode(
        y=alt.Y("name:N", title=None, sort=list(measured)),
        tooltip=["name:N", *(alt.Tooltip(f"{x}:Q", format=".3f") for x in _INTERVAL)],
    )
    span: alt.Chart = base.mark_rule(strokeWidth=3, color=NEUTRAL, opacity=0.4).encode(
        x=alt.X("low:Q", title=title, scale=alt.Scale(domainMin=0)), x2="high:Q"
    )
    dot: alt.Chart = base.mark_circle(size=60, color=NEUTRAL, opacity=1).encode(x="value:Q")
    return _sized(alt.LayerChart(layer=[span, dot]), width=420, height=30 * len(rows))


def left_out_chart(reason: Reason, top: int = 10) -> alt.LayerChart:
    """Return what the recommendation loses without each item, strongest first, and its ranks."""
    ranked = sorted(reason.considered, key=lambda one: -abs(one.probability_lost))[:top]
    values = [(one.label, 100 * one.probability_lost) for one in ranked]
    bars = _bars(values, "percent of its probability lost if left out", signed=True)
    rows = [
        {
            "part": numbered(place, one.label),
            "end": max(100 * one.probability_lost, 0.0),
            "ranks": before_and_after(one.rank_before, one.rank_without, reason.in_history),
        }
        for place, one in enumerate(ranked, start=1)
    ]
    ranks: alt.Chart = (
        alt.Chart(inline(rows))
        .mark_text(align="left", dx=5, fontSize=11, color="#444")
        .encode(
            x="end:Q", y=alt.Y("part:N", sort=[str(row["part"]) for row in rows]), text="ranks:N"
        )
    )
    return _sized(alt.LayerChart(layer=[bars, ranks]), width=420, height=24 * len(rows))


def explainer_chart(explanation: Explanation, case: int = 0, top: int = 10) -> alt.Chart:
    """Return the strongest parts of one case by one method."""
    slots = explanation.strongest(case, top)
    values = [
        (explanation.part_name(case, slot), float(explanation.scores[case, slot])) for slot in slots
    ]
    bars = _bars(values, f"importance ({explanation.method})", explanation.signed)
    return _sized(bars, width=420, height=24 * len(values))


def numbered(place: int, name: str) -> str:
    """Return the label of a bar; an item that is in the history twice has two bars."""
    return f"{place}. {name}"


def _bars(values: list[tuple[str, float]], title: str, signed: bool) -> alt.Chart:
    """Return bars: to the right for the target, to the left against it."""
    rows = [
        {"part": numbered(place, name), "value": value, "effect": effect_of(value, signed)}
        for place, (name, value) in enumerate(values, start=1)
    ]
    order = [str(row["part"]) for row in rows]
    chart: alt.Chart = (
        alt.Chart(inline(rows))
        .mark_bar(cornerRadiusEnd=3, height=14)
        .encode(
            x=alt.X("value:Q", title=title, axis=alt.Axis(tickCount=6)),
            y=alt.Y("part:N", title=None, sort=order, axis=alt.Axis(minExtent=LABEL_WIDTH)),
            color=effect_color(signed),
            tooltip=["part:N", alt.Tooltip("value:Q", format=".4f"), "effect:N"],
        )
    )
    return chart


def effect_color(legend: bool = True) -> alt.Color:
    """Return the colors of parts that count for the target, against it, or without a sign."""
    return alt.Color(
        "effect:N",
        title="counts",
        scale=alt.Scale(domain=["for it", "against it", "unsigned"], range=[FOR, AGAINST, NEUTRAL]),
        legend=alt.Legend(values=["for it", "against it"]) if legend else None,
    )


def effect_of(value: float, signed: bool) -> str:
    """Return whether a part counts for or against the target."""
    if not signed:
        return "unsigned"
    return "for it" if value >= 0 else "against it"


def agreement_chart(agreements: Mapping[tuple[str, str], Measure]) -> alt.LayerChart:
    """Return a heat map of how similarly the explainers rank the parts."""
    rows = [
        {"one": one, "other": other, "value": measure.value, "low": low, "high": high}
        for (one, other), measure in agreements.items()
        for low, high in [measure.bounds]
    ]
    return matrix_chart(rows, "Spearman's rho")


def matrix_chart(rows: list[dict[str, Any]], title: str) -> alt.LayerChart:
    """Return a tile for every pair, from red (opposite) through pale to blue (similar)."""
    names = list(dict.fromkeys(str(row["one"]) for row in rows))
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("other:N", title=None, sort=names, axis=alt.Axis(labelAngle=-40)),
        y=alt.Y("one:N", title=None, sort=names),
        tooltip=["one:N", "other:N", *(alt.Tooltip(f"{x}:Q", format=".2f") for x in _INTERVAL)],
    )
    scale = alt.Scale(domain=[-1, 0, 1], range=[AGAINST, BLANK, NEUTRAL], interpolate="rgb")
    tiles: alt.Chart = base.mark_rect(stroke="white").encode(
        color=alt.Color("value:Q", title=title, scale=scale)
    )
    numbers: alt.Chart = base.mark_text(fontSize=11).encode(
        text=alt.Text("value:Q", format=".2f"),
        color=alt.condition("abs(datum.value) > 0.6", alt.value("white"), alt.value("#222")),
    )
    return _sized(
        alt.LayerChart(layer=[tiles, numbers]), width=44 * len(names), height=34 * len(names)
    )


def reliability_chart(diagrams: Mapping[str, Reliability]) -> alt.HConcatChart:
    """Return reliability diagrams side by side: accuracy and counts by confidence.

    A dot with its interval marks each bin's accuracy at the bin's mean confidence. Empty bins have
    no bar.
    """
    return reliability_panels(
        {name: one.rows() for name, one in diagrams.items()},
        {name: _ends(one) for name, one in diagrams.items()},
    )


def reliability_panels(
    panels: Mapping[str, list[dict[str, Any]]], ends: Mapping[str, tuple[float, float]]
) -> alt.HConcatChart:
    """Return the same chart from the rows and the limits of each diagram."""
    drawn = [_diagram(name, rows, *ends[name]) for name, rows in panels.items()]
    title = alt.Title(DIAGONAL, fontSize=12, fontWeight="normal", anchor="middle")
    return styled(alt.HConcatChart(hconcat=drawn, title=title))


def _ends(diagram: Reliability) -> tuple[float, float]:
    first, last = diagram.edges[[0, -1]].tolist()
    return (0.0, 1.0) if first == last else (first, last)  # all confidences are equal


def _diagram(name: str, rows: list[dict[str, Any]], first: float, last: float) -> alt.VConcatChart:
    across = alt.Scale(domain=[first, last], nice=False)
    up = alt.Scale(domain=[0, max([last, *(row["high"] for row in rows)])], nice=False)
    base = alt.Chart(inline(rows)).encode(
        x2="to:Q",
        tooltip=[
            *(alt.Tooltip(f"{one}:Q", format=".3f") for one in ("from", "to", "sure", *_INTERVAL)),
            alt.Tooltip("cases:Q", format=","),
        ],
    )
    unnamed = alt.X("from:Q", title=None, scale=across, axis=alt.Axis(labels=False))
    bars: alt.Chart = base.mark_rect(color=NEUTRAL, opacity=0.35, stroke="white").encode(
        x=unnamed, y=alt.Y("value:Q", title="accuracy", scale=up), y2=alt.datum(0)
    )
    at_confidence = alt.X("sure:Q", scale=across)
    points = alt.Chart(inline(rows)).encode(x=at_confidence)
    span: alt.Chart = points.mark_rule(strokeWidth=2, color=NEUTRAL).encode(y="low:Q", y2="high:Q")
    dot: alt.Chart = points.mark_circle(size=45, color=NEUTRAL, opacity=1).encode(y="value:Q")
    ends = alt.Chart(inline([{"sure": first}, {"sure": last}]))
    line: alt.Chart = ends.mark_line(color=AGAINST, strokeDash=[4, 3]).encode(
        x=at_confidence, y=alt.Y("sure:Q", scale=up)
    )
    counts: alt.Chart = base.mark_rect(color=NEUTRAL, opacity=0.6, stroke="white").encode(
        x=alt.X("from:Q", title="confidence", scale=across, axis=alt.Axis(tickCount=5)),
        y=alt.Y("cases:Q", title="cases", scale=alt.Scale(domainMin=0), axis=FEW_TICKS),
        y2=alt.datum(0),
    )
    width, height = DIAGRAM
    accuracy = alt.LayerChart(layer=[bars, line, span, dot], width=width, height=height, title=name)
    return alt.VConcatChart(
        vconcat=[accuracy, counts.properties(width=width, height=COUNTS)], spacing=6
    )


_INTERVAL = ("value", "low", "high")


def to_svg(chart: alt.TopLevelMixin, description: str) -> str:
    """Return an SVG element for a page, with a name for screen readers."""
    drawn = specification(chart, description)
    name = drawn["description"]
    # Ids must be unique in a page with several pictures.
    slug = re.sub(r"\W+", "-", name.lower())

    def changed(tag: re.Match[str]) -> str:
        # A screen reader needs one name for the picture, not a stop at each mark.
        plain = re.sub(r' (?:aria-[a-z]+|role)="[^"]*"', "", tag[0])
        return re.sub(r'(\bid="|url\(#)', rf"\g<1>{slug}-", plain)

    # Only tags: a title may read like an attribute.
    svg = re.sub(r"<[^<>]*>", changed, vl_convert.vegalite_to_svg(drawn))
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(name)}" ', 1)


def to_png(chart: alt.TopLevelMixin, scale: float = 2.0) -> bytes:
    """Return a PNG picture."""
    drawn = specification(chart, "")
    drawn["config"]["background"] = "white"
    return vl_convert.vegalite_to_png(drawn, scale=scale)


def specification(chart: alt.TopLevelMixin, description: str) -> dict[str, Any]:
    """Return the Vega-Lite specification, with text that can be drawn."""
    spoken = visible(shortened(description, LONGEST_MESSAGE))
    drawn: dict[str, Any] = _drawable(chart.to_dict())
    return {**drawn, "description": spoken}


def _drawable(part: Any) -> Any:  # noqa: ANN401
    """Return a chart or a part of one without text that cannot be drawn, or not quickly.

    A control character, which XML forbids, makes the renderer abort the whole process. Vega-Lite
    writes titles into expressions, in which a backslash would start an escape.
    """
    if isinstance(part, str):
        return visible(shortened(part, LONGEST_TEXT)).replace("\\", BACKSLASH)
    if isinstance(part, list | tuple):
        return [_drawable(one) for one in part]
    if isinstance(part, dict):
        return {name: _drawable(one) for name, one in part.items()}
    if isinstance(part, alt.SchemaBase):
        part = part.copy(deep=False)
        for name, one in list(part._kwds.items()):
            part[name] = _drawable(one)
    return part


def inline(rows: list[dict[str, Any]]) -> alt.InlineData:
    """Return data that are embedded in the chart."""
    return alt.InlineData(values=rows)


def _sized(chart: C, width: int, height: int) -> C:
    """Return the chart in the house style, with a size."""
    return styled(chart.properties(width=width, height=height))


def styled(chart: D) -> D:
    """Return the chart in the house style, with text that can be drawn."""
    safe: D = _drawable(chart)
    dressed: D = (
        safe.configure(font=FONT, background="transparent", padding=PADDING)
        .configure_view(strokeWidth=0)
        .configure_axis(grid=False, labelLimit=LABEL_WIDTH, labelFontSize=12, titleFontSize=12)
        .configure_legend(orient="top", labelFontSize=12, titleFontSize=12, labelLimit=0)
        .configure_header(labelFontSize=13, labelFontWeight="bold", labelLimit=0)
    )
    return dressed
