"""Charts of toy tasks: who is selected where, as Figure 5 of Afchar & Hennequin (2020) draws it."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import torch
from torch import Tensor

from whence.experts import PLOTTED, InterpretableMLP
from whence.report.charts import AGAINST, NEUTRAL, dress, inline

PANEL = 170


@torch.no_grad()
def selection_chart(
    model: InterpretableMLP, points: Tensor, dimensions: tuple[int, int] = (0, 1)
) -> alt.FacetChart:
    """A panel an expert: points in the colour of the class it says, as solid as it is selected."""
    selected = model.attribute(points, PLOTTED)
    said = (model.answers(points)[:, 0] > 0).T
    names = model.family.names
    rows = [
        {"x": x, "y": y, "expert": name, "class": "1" if yes else "-1", "alpha": alpha}
        for place, own, classes in zip(
            points[:, list(dimensions)].tolist(), selected.tolist(), said.tolist(), strict=True
        )
        for (x, y), name, alpha, yes in zip([place] * len(names), names, own, classes, strict=True)
    ]
    return dress(_panels(rows, names, [model.family.groups[one].name for one in dimensions]))


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
