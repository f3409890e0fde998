"""Charts by confidence: shuffled attention, and stability over seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import altair as alt

from whence.report.charts import AGAINST, COUNTS, DIAGRAM, FEW_TICKS, FOR, NEUTRAL, inline, styled
from whence.trust.bins import Binned

COLOURS: Final = (AGAINST, "#d9a441", NEUTRAL, FOR, "#7a5195", "#8a94a0")
"""The colours of the lines in a panel, in their order."""
SURE: Final = "confidence in the predicted class"
CHANGE: Final = "mean change of its probability"
BANDS: Final = "shuffled attention; bands: 95 % intervals over users"
LARGEST: Final = "largest share of attention of one part"
MEDIAN: Final = "median change of the probability"
BOXES: Final = "dots: medians; bars: the middle half of the cases; lines: 5 % to 95 %"
LIKED: Final = "mean probability of being liked"
OVER_SEEDS: Final = "over the seeds; bands: 95 % intervals over users"
ROW_HEIGHT, COLUMNS = 30, 3
AXIS: Final = alt.Axis(tickCount=4, format="~g")


def permutation_chart(lines: Mapping[str, Binned]) -> alt.ConcatChart:
    """Draw what shuffled attention changes by confidence, and the number of cases.

    A dot stands at the mean confidence of its bin; empty bins have none.
    """
    return _concatenated([_line_panel(lines, SURE, CHANGE)], BANDS)


def stability_chart(measures: Mapping[str, Binned]) -> alt.ConcatChart:
    """Draw each measure over seeds by the mean prediction, one panel per measure."""
    panels = [_line_panel({name: one}, LIKED, name) for name, one in measures.items()]
    return _concatenated(panels, OVER_SEEDS)


def attention_chart(kinds: Mapping[str, Binned]) -> alt.HConcatChart:
    """Draw the distribution of the median changes, by the largest share of attention.

    All kinds have the same bins, the largest shares on top, with the number of cases of each.
    """
    digits = _digits(next(iter(kinds.values())).edges.tolist())
    rows = [
        {**row, "share": f"{row['from']:.{digits}g} – {row['to']:.{digits}g}"}
        for row in _rows(kinds)
    ]
    shares = list(dict.fromkeys(row["share"] for row in sorted(rows, key=lambda row: -row["from"])))
    base = _base(list(kinds), rows).encode(yOffset=alt.YOffset("line:N", sort=list(kinds)))
    named = alt.Y("share:N", title=LARGEST, sort=shares)
    unnamed = alt.Y("share:N", title=None, sort=shares, axis=None)
    boxes = base.encode(y=named)
    across = alt.X("least:Q", title=MEDIAN, axis=AXIS)
    nine: alt.Chart = boxes.mark_rule(strokeWidth=1.5).encode(x=across, x2="most:Q")
    half: alt.Chart = boxes.mark_rule(strokeWidth=7, opacity=0.4).encode(x="lower:Q", x2="upper:Q")
    dot: alt.Chart = boxes.mark_circle(size=45, opacity=1).encode(x="median:Q")
    counts: alt.Chart = base.mark_bar(opacity=0.6).encode(
        x=alt.X("cases:Q", title="cases", axis=FEW_TICKS), y=unnamed
    )
    height = ROW_HEIGHT * len(shares)
    spread = alt.LayerChart(layer=[nine, half, dot], width=DIAGRAM[0], height=height)
    panels = [spread, counts.properties(width=2 * COUNTS, height=height)]
    return styled(alt.HConcatChart(hconcat=panels, title=_small(BOXES), spacing=10))


def _line_panel(lines: Mapping[str, Binned], across: str, up: str) -> alt.VConcatChart:
    """Draw all lines over the bins of all."""
    first = min(one.edges[0] for one in lines.values())
    last = max(one.edges[-1] for one in lines.values())
    return line_panel(_rows(lines), list(lines), (float(first), float(last)), across, up)


def line_panel(
    rows: list[dict[str, Any]], lines: list[str], ends: tuple[float, float], across: str, up: str
) -> alt.VConcatChart:
    """Draw all lines with their bands, and below them the number of cases in each bin."""
    base = _base(lines, rows)
    band: alt.Chart = base.mark_area(opacity=0.18).encode(
        x=_x(ends),
        y=alt.Y("low:Q", title=up, scale=alt.Scale(domainMin=0), axis=AXIS),
        y2="high:Q",
    )
    line: alt.Chart = base.mark_line(strokeWidth=2).encode(x=_x(ends), y="value:Q")
    dot: alt.Chart = base.mark_circle(size=45, opacity=1).encode(x=_x(ends), y="value:Q")
    scale = alt.Scale(type="log", domainMin=1)
    counts = base.encode(
        x=_x(ends, across), y=alt.Y("cases:Q", title="cases", scale=scale, axis=FEW_TICKS)
    )
    width, height = DIAGRAM
    below: alt.LayerChart = alt.LayerChart(
        layer=[counts.mark_line(opacity=0.5), counts.mark_circle(size=25, opacity=1)],
        width=width,
        height=COUNTS,
    )
    above = alt.LayerChart(layer=[band, line, dot], width=width, height=height)
    return alt.VConcatChart(vconcat=[above, below], spacing=6)


def _digits(edges: list[float]) -> int:
    """Return the fewest digits that distinguish all edges, at least two."""
    every = range(2, 17)
    return next((one for one in every if len({f"{x:.{one}g}" for x in edges}) == len(edges)), 17)


def _base(lines: list[str], rows: list[dict[str, Any]]) -> alt.Chart:
    """Return a chart of the rows in the colours of their lines."""
    legend = alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=3, symbolOpacity=1)
    several = len(lines) > 1
    colour = alt.Color(
        "line:N",
        scale=alt.Scale(domain=lines, range=list(COLOURS) if several else [NEUTRAL]),
        legend=legend if several else None,
    )
    said = [alt.Tooltip(f"{one}:Q", format=".3f") for one in ("from", "to", "value", "low", "high")]
    return alt.Chart(inline(rows)).encode(
        color=colour, tooltip=["line:N", *said, alt.Tooltip("cases:Q", format=",")]
    )


def _x(ends: tuple[float, float], title: str | None = None) -> alt.X:
    """Return an axis from the first to the last edge; it has labels only with a title."""
    scale = alt.Scale(domain=list(ends), nice=False)
    return alt.X(
        "place:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5, labels=title is not None)
    )


def _rows(lines: Mapping[str, Binned]) -> list[dict[str, Any]]:
    return [{"line": name, **row} for name, one in lines.items() for row in one.rows()]


def _concatenated(panels: list[alt.VConcatChart], title: str) -> alt.ConcatChart:
    return styled(alt.ConcatChart(concat=panels, columns=COLUMNS, title=_small(title)))


def _small(title: str) -> alt.Title:
    return alt.Title(title, fontSize=12, fontWeight="normal", anchor="middle")
