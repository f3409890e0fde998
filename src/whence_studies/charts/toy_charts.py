"""Charts of toy tasks: which expert is selected where, as in Figure 5 of Afchar & Hennequin."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import torch
from torch import Tensor

from whence.experts import PLOTTED, InterpretableMLP
from whence.report.charts import AGAINST, NEUTRAL, inline, styled

PANEL = 170


@torch.no_grad()
def selection_chart(
    model: InterpretableMLP, points: Tensor, *planes: tuple[int, int]
) -> alt.ConcatChart:
    """Draw one panel per expert, with points coloured by class and as opaque as it is selected.

    Each plane, given by two dimensions, is one row of panels. A point at 0 in both dimensions is
    left out of that plane, where all such points would overlap.
    """
    selected, answers = model.attribute(points, PLOTTED), model.expert_outputs(points)[:, 0] > 0
    groups = [group.name for group in model.family.groups]
    drawn = []
    for plane in planes:
        own = (points[:, list(plane)] != 0).any(dim=1)
        rows = _rows(model.family.names, points[own][:, list(plane)], selected[own], answers.T[own])
        drawn.append(_panels(rows, model.family.names, [groups[one] for one in plane]))
    return styled(alt.ConcatChart(concat=drawn, columns=1))


def _rows(
    names: Sequence[str], places: Tensor, selected: Tensor, answers: Tensor
) -> list[dict[str, object]]:
    """Return every point in every expert's panel."""
    every = zip(places.tolist(), selected.tolist(), answers.tolist(), strict=True)
    return [
        {"x": x, "y": y, "expert": name, "class": "1" if yes else "-1", "alpha": alpha}
        for (x, y), own, classes in every
        for name, alpha, yes in zip(names, own, classes, strict=True)
    ]


def _panels(
    rows: list[dict[str, object]], names: Sequence[str], axes: Sequence[str]
) -> alt.FacetChart:
    dots: alt.Chart = (
        alt.Chart()
        .mark_circle(size=18)
        .encode(
            x=alt.X("x:Q", title=axes[0]),
            y=alt.Y("y:Q", title=axes[1]),
            color=alt.Color(
                "class:N",
                title="class said",
                scale=alt.Scale(domain=["-1", "1"], range=[NEUTRAL, AGAINST]),
            ),
            opacity=alt.Opacity(
                "alpha:Q", title="selected", scale=alt.Scale(domain=[0, 1], range=[0.03, 1])
            ),
            tooltip=["expert:N", "class:N", alt.Tooltip("alpha:Q", format=".2f")],
        )
        .properties(width=PANEL, height=PANEL)
    )
    chart: alt.FacetChart = dots.facet(
        column=alt.Column("expert:N", title=None, sort=list(names)), data=inline(rows)
    )
    return chart
