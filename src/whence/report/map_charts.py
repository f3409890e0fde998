"""Charts of learned maps, of the reasons for several targets, and of ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair as alt
import numpy as np

from whence.arrays import Floats
from whence.errors import InputError
from whence.explanation import Explanation
from whence.maps.learned_map import OTHERS, SEVERAL, LearnedMap
from whence.report.charts import AGAINST, BLANK, NEUTRAL, inline, styled

SIDE: Final = 460
SHOWN: Final = 12
"""The number of items of a history that fit into a chart."""
TILE: Final = (46, 30)
BARS, WIDE = (360, 200), 40
"""The size of a chart of ratings, and the width of its bars."""
GREY, DARK = "#d5d9dd", "#6b7580"
COLOURS: Final = (AGAINST, NEUTRAL, "#d9a441", "#2a7f62", "#8a5a9e", "#c9788f", "#5ba3b5")


def learned_chart(learned: LearnedMap, shown: Sequence[str] = ()) -> alt.Chart:
    """Draw a point per item or user, with the groups `shown` in colour above all others."""
    names = list(shown or learned.groups.names[: len(COLOURS)])
    if len(names) > len(COLOURS):
        raise InputError(f"A map shows at most {len(COLOURS)} groups in colour, not {len(names)}.")
    return styled(
        points_chart(learned.rows(names), names, learned.groups.what, learned.title, SIDE)
    )


def points_chart(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], what: str, title: str, side: int
) -> alt.Chart:
    """Draw the rows of a `LearnedMap`, with these groups in colour."""
    there = [name for name in [*names, SEVERAL, OTHERS] if any(row["of"] == name for row in rows)]
    colours = {**dict(zip(names, COLOURS, strict=False)), SEVERAL: DARK, OTHERS: GREY}
    chart: alt.Chart = (
        alt.Chart(inline([dict(row) for row in rows]))
        .mark_circle(size=22, opacity=0.8)
        .encode(
            x=_axis("x"),
            y=_axis("y"),
            color=alt.Color(
                "of:N",
                title=what,
                scale=alt.Scale(domain=there, range=[colours[name] for name in there]),
                legend=alt.Legend(columns=4, symbolOpacity=1),
            ),
            tooltip=["name:N", alt.Tooltip("groups:N", title=what)],
        )
        .properties(
            width=side, height=side, title=alt.Title(title, fontSize=12, fontWeight="normal")
        )
    )
    return chart


def reason_chart(explanation: Explanation, shown: int = SHOWN) -> alt.LayerChart:
    """Draw a row per target and a column per strong item, oldest first, with their shares."""
    shares = signed_shares(explanation)
    strongest = np.argsort(-np.abs(shares).max(axis=0), kind="stable")
    slots = [int(slot) for slot in strongest[:shown] if explanation.parts[:, slot].any()]
    slots.sort()
    # Numbered, so that an item that stands in the history twice has two columns.
    items = {
        slot: f"{place}. {explanation.part_name(0, slot)}" for place, slot in enumerate(slots, 1)
    }
    targets = [f"{case + 1}. {explanation.target_name(case)}" for case in range(len(explanation))]
    rows = [
        {"target": target, "item": item, "share": float(shares[case, slot])}
        for case, target in enumerate(targets)
        for slot, item in items.items()
    ]
    reach = float(np.abs(shares[:, slots]).max(initial=0.0)) or 1.0
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("item:N", title=None, sort=list(items.values()), axis=alt.Axis(labelAngle=-40)),
        y=alt.Y("target:N", title=None, sort=targets),
        tooltip=["target:N", "item:N", alt.Tooltip("share:Q", format=".1%")],
    )
    below = [-reach] if explanation.signed else []
    scale = alt.Scale(
        domain=[*below, 0, reach],
        range=[*([AGAINST] if below else []), BLANK, NEUTRAL],
        interpolate="rgb",
    )
    title = f"share of the importance ({explanation.method})"
    tiles: alt.Chart = base.mark_rect(stroke="white").encode(
        color=alt.Color(
            "share:Q", title=title, scale=scale, legend=alt.Legend(format=".0%", titleLimit=0)
        )
    )
    numbers: alt.Chart = base.mark_text(fontSize=11).encode(
        text=alt.Text("share:Q", format=".0%"),
        color=alt.condition(
            f"abs(datum.share) > {0.6 * reach}", alt.value("white"), alt.value("#222")
        ),
    )
    width, height = TILE[0] * len(slots), TILE[1] * len(targets)
    return styled(alt.LayerChart(layer=[tiles, numbers], width=width, height=height))


def rating_chart(counts: Mapping[float, int]) -> alt.LayerChart:
    """Draw a bar per rating with its share of all ratings, and a dashed line at the mean."""
    total = sum(counts.values())
    mean = sum(rating * count for rating, count in counts.items()) / total
    rows = [
        {"rating": rating, "count": count, "share": count / total}
        for rating, count in counts.items()
    ]
    base = alt.Chart(inline(rows)).encode(
        x=alt.X(
            "rating:Q",
            title="rating",
            axis=alt.Axis(values=list(counts), format="~g"),
            scale=alt.Scale(zero=False, padding=WIDE),
        ),
        y=alt.Y("share:Q", title="share of all ratings", axis=alt.Axis(format="%", tickCount=4)),
        tooltip=["rating:Q", alt.Tooltip("count:Q", format=",")],
    )
    bars: alt.Chart = base.mark_bar(color=NEUTRAL, size=WIDE)
    numbers: alt.Chart = base.mark_text(dy=-8, fontSize=11).encode(
        text=alt.Text("count:Q", format=",")
    )
    line: alt.Chart = (
        alt.Chart(inline([{"rating": mean}]))
        .mark_rule(color=AGAINST, strokeDash=[4, 3], strokeWidth=2)
        .encode(x="rating:Q")
    )
    title = alt.Title(f"dashed: the mean, {mean:.2f}", fontSize=12, fontWeight="normal")
    return styled(
        alt.LayerChart(layer=[bars, numbers, line], width=BARS[0], height=BARS[1], title=title)
    )


def signed_shares(explanation: Explanation) -> Floats:
    """Return importances divided by the sum of their magnitudes, with signs `[B, n]`."""
    scores = np.where(explanation.parts, explanation.scores, 0.0)
    total = np.abs(scores).sum(axis=1, keepdims=True)
    shares: Floats = scores / np.where(total > 0, total, 1.0)
    return shares


def _axis(field: str) -> alt.X | alt.Y:
    """Return an axis without labels, because coordinates of a map have no meaning."""
    channel = alt.X if field == "x" else alt.Y
    return channel(f"{field}:Q", title=None, axis=None, scale=alt.Scale(zero=False, padding=8))
