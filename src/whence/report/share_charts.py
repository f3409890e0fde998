"""Bars of shares with their intervals, as in Figures 6 and 8 of Afchar & Hennequin (2020)."""

from __future__ import annotations

from typing import Any, Final

import altair as alt

from whence.report.charts import NEUTRAL, dress, inline

DARK: Final = "#3a434c"
BAR_HEIGHT, WIDTH = 22, 230

Row = dict[str, Any]


def share_row(of: str, what: str, name: str, value: float, interval: tuple[float, float]) -> Row:
    """A bar: of whom, a share of what, and whose share it is."""
    low, high = interval
    return {"of": of, "what": what, "name": name, "value": value, "low": low, "high": high}


def share_chart(rows: list[Row]) -> alt.FacetChart:
    """Down, of whom shares are, where that is said, and across what they are shares of."""
    whose, kinds, names = (
        list(dict.fromkeys(row[field] for row in rows)) for field in ("of", "what", "name")
    )
    base = alt.Chart(inline(rows), height=BAR_HEIGHT * len(names), width=WIDTH).encode(
        y=alt.Y("name:N", title=None, sort=None),
        tooltip=[
            "name:N",
            *(alt.Tooltip(f"{one}:Q", format=".3f") for one in ("value", "low", "high")),
        ],
    )
    bar: alt.Chart = base.mark_bar(color=NEUTRAL, opacity=0.75).encode(
        x=alt.X("value:Q", title=None, axis=alt.Axis(format="%", tickCount=4))
    )
    span: alt.Chart = base.mark_rule(color=DARK, strokeWidth=1.5).encode(x="low:Q", x2="high:Q")
    layers: alt.LayerChart = alt.LayerChart(layer=[bar, span])
    across = alt.Column("what:N", title=None, sort=kinds)
    if whose == [""]:
        return dress(layers.facet(column=across))
    down = alt.Row("of:N", title=None, sort=whose, header=alt.Header(labelOrient="top"))
    return dress(layers.facet(column=across, row=down))
