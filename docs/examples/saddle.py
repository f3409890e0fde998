"""Does averaging keep weights away from a saddle? Repeats Figures 4.9 and 4.10 of Jain (2019).

    python docs/examples/saddle.py [--starts 20] [--rate 0.01] [--picture saddle.png]

Two weights (a, b) have the loss b²/2 − a²/2 + a⁴/4, with a saddle at (0, 0) and minima at (±1, 0);
the thesis does not give its own loss. SGD with momentum starts high on the ridge a = 0, which leads
down to the saddle. The script prints a Markdown table over the starts. With `--picture` it draws
the first start as PNG, SVG or HTML. It takes half a minute on one CPU core.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from whence.engine.averaging import AveragingRule, average_weights
from whence.measure import mean_over_seeds
from whence.report.charts import AGAINST, inline, styled, to_png, to_svg

Points = npt.NDArray[np.float64]

SADDLE, MINIMA = (0.0, 0.0), ((-1.0, 0.0), (1.0, 0.0))
HEIGHT, WIDTH = 1.5, 0.1  # of the starts: how high up, and their spread about the ridge
NOISE, RATE, MOMENTUM = 0.3, 0.01, 0.9  # the noise of a gradient is normal, with this deviation
STEPS, EPOCH, EPOCHS = 400, 20, (5, 10, 20, 40)
NEAR = 0.05
NAMES: dict[AveragingRule, str] = {"none": "SGD", "swa": "SWA", "aswa": "ASWA", "naswa": "NASWA"}

COLUMNS = (
    "rule",
    "steps per epoch",
    "closest distance to the saddle",
    "further away than SGD",
    f"came within {NEAR} of a minimum",
    "after steps",
    "final distance to a minimum",
)

LEVELS = (1.9, 1.6, 1.3, 1.0, 0.75, 0.5, 0.3, 0.15, 0.05, 0.0, -0.05, -0.1, -0.15, -0.2, -0.235)
LOW, HIGH, INK, RESTART = "#86a3c6", "#f8f7f3", "#1d2630", "#f2c14e"
SIDES, HEIGHTS, SCALE = (-1.6, 1.6), (-0.65, 1.75), 100  # what is drawn, in pixels a unit
ARROW = "M0,0L0.55,1.4L0,1L-0.55,1.4Z"  # its tip is at the point, and turns about it
APART = 0.07  # what an epoch must have moved for an arrow
SHOWN = (
    "One start; epochs are black and red in turns. "
    "Yellow: where training resumes from the average. White: lines of equal loss."
)


class Place(nn.Module):
    """A model of two weights."""

    def __init__(self, start: Points) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.from_numpy(start))

    def forward(self) -> torch.Tensor:
        """Return the loss."""
        a, b = self.weights
        loss: torch.Tensor = b**2 / 2 - a**2 / 2 + a**4 / 4
        return loss


@dataclass(frozen=True)
class Walk:
    """The weights at the start of each epoch and after each of its steps."""

    epochs: Points
    """`[epochs, steps + 1, 2]`; if averaging moves the weights, the next epoch starts there."""
    end: Points
    """The final weights."""

    @cached_property
    def closest(self) -> float:
        """Smallest distance to the saddle at any step."""
        return float(distance(self.epochs, SADDLE).min())

    @cached_property
    def arrival(self) -> int | None:
        """The first step after which a minimum is near."""
        near = np.flatnonzero(to_minimum(self.epochs[:, 1:]).ravel() < NEAR)
        return int(near[0]) + 1 if len(near) else None


def walk(rule: AveragingRule, epoch: int, seed: int, rate: float = RATE) -> Walk:
    """Train two weights; for every rule, a seed has the same start and the same noise."""
    rng = np.random.default_rng(seed)
    place = Place(np.array([WIDTH * rng.standard_normal(), HEIGHT]))
    optimizer = torch.optim.SGD(place.parameters(), lr=rate, momentum=MOMENTUM)
    been: list[Points] = []

    def note(*_: object) -> None:
        been.append(place.weights.detach().numpy().copy())

    optimizer.register_step_post_hook(note)  # before averaging, which moves the weights afterwards
    averaging = None
    if rule != "none":
        averaging = average_weights(place, optimizer, rule, epoch=epoch, start=STEPS * 3 // 4)
    for step in range(STEPS):
        if step % epoch == 0:
            note()
        optimizer.zero_grad()
        place().backward()
        assert place.weights.grad is not None
        place.weights.grad += torch.from_numpy(NOISE * rng.standard_normal(2))
        optimizer.step()
    if averaging is not None:
        averaging.finish()
    return Walk(np.reshape(been, (-1, epoch + 1, 2)), place.weights.detach().numpy())


def distance(points: Points, place: tuple[float, float]) -> Points:
    """Return the distance of each point."""
    return np.asarray(np.linalg.norm(points - place, axis=-1))


def to_minimum(points: Points) -> Points:
    """Return the distance to the nearer minimum."""
    return np.minimum(*(distance(points, minimum) for minimum in MINIMA))


def row(name: str, epoch: int | str, walks: list[Walk], plain: list[Walk]) -> str:
    """Return one row of the table."""
    arrivals = [walk.arrival for walk in walks if walk.arrival is not None]
    further = [one.closest - other.closest for one, other in zip(walks, plain, strict=True)]
    cells = (
        name,
        epoch,
        mean_over_seeds([walk.closest for walk in walks]),
        "" if walks is plain else mean_over_seeds(further),
        f"{len(arrivals)} of {len(walks)}",
        _in_whole_steps(arrivals) if len(arrivals) == len(walks) else "",
        mean_over_seeds([float(to_minimum(walk.end)) for walk in walks]),
    )
    return f"| {' | '.join(map(str, cells))} |"


def _in_whole_steps(arrivals: list[int]) -> str:
    mean = mean_over_seeds(arrivals)
    return f"{mean.value:.0f} ± {mean.interval[1] - mean.value:.0f}"


def picture(walks: dict[str, Walk]) -> alt.FacetChart:
    """Draw one panel per walk on the same surface, with alternating colours for epochs."""
    rows = [row for name, walk in walks.items() for row in _rows(name, walk)]
    ink = alt.Color("colour:N", scale=None)
    base = alt.Chart().encode(x=_x("a"), y=_y("b"))
    line = base.mark_line(strokeWidth=1.4, strokeJoin="round", opacity=0.9)
    head = base.transform_filter("isValid(datum.angle)").mark_point(
        shape=ARROW, size=130, filled=True, opacity=1
    )
    restart = base.transform_filter("datum.restart").mark_point(
        size=22, filled=True, fill=RESTART, stroke=INK, strokeWidth=0.8, opacity=1
    )
    order, epoch = alt.Order("step:Q"), alt.Detail("epoch:N")
    layers = [
        *_surface(),
        line.encode(order=order, detail=epoch, color=ink),
        head.encode(angle=alt.Angle("angle:Q", scale=None), color=ink),
        restart,
        *_marks(next(iter(walks.values()))),
    ]
    panel = alt.LayerChart(
        layer=layers,
        width=SCALE * (SIDES[1] - SIDES[0]),
        height=SCALE * (HEIGHTS[1] - HEIGHTS[0]),
        view=alt.ViewBackground(fill=HIGH),
    )
    header = alt.Header(labelPadding=6)
    chart: alt.FacetChart = panel.facet(
        column=alt.Column("name:N", title=None, sort=list(walks), header=header),
        data=inline(rows),
        spacing=16,
    )
    return styled(chart.properties(title=alt.Title(SHOWN, fontSize=12, fontWeight="normal")))


def _rows(name: str, walk: Walk) -> list[dict[str, Any]]:
    """Return the path of each epoch, with its arrows and restarts."""
    rows: list[dict[str, Any]] = []
    for epoch, points in enumerate(walk.epochs):
        arrow = points[0]
        for step, (a, b) in enumerate(points):
            here = {"name": name, "epoch": epoch, "step": step, "a": a, "b": b}
            here["colour"] = (INK, AGAINST)[epoch % 2]
            here["restart"] = bool(
                step == 0 < epoch and (points[0] != walk.epochs[epoch - 1][-1]).any()
            )
            is_last = step == len(points) - 1
            if distance(points[step], arrow) > (APART if is_last else 6 * APART):
                towards = points[step] - points[step - 1]
                here["angle"] = math.degrees(math.atan2(*towards))
                arrow = points[step]
            rows.append(here)
    return rows


def _surface() -> list[alt.Chart]:
    """Draw the loss levels, darker where lower, and the level of the saddle as a line."""
    chart = alt.Chart(inline([row for level in LEVELS for row in _below(level)])).encode(
        x=_x("a"),
        y=_y("low"),
        y2="high:Q",
        detail=[alt.Detail("level:O"), alt.Detail("side:N")],
        fill=alt.Fill(
            "level:Q",
            scale=alt.Scale(
                domain=[min(LEVELS), max(LEVELS)], range=[LOW, HIGH], interpolate="rgb"
            ),
            legend=None,
        ),
    )
    bands = chart.mark_area(stroke="white", strokeWidth=0.8, clip=True, opacity=1)
    own = chart.transform_filter("datum.level == 0").mark_area(
        stroke="white", strokeWidth=1.8, fillOpacity=0, clip=True, opacity=1
    )
    return [bands, own]


def _below(level: float) -> list[dict[str, Any]]:
    """Return the area below a level: |b| ≤ √(2·level + a² − a⁴/2), one island or two."""
    root = math.sqrt(1 + 4 * level)
    outer, inner = math.sqrt(1 + root), math.sqrt(max(0.0, 1 - root))
    islands = [(-outer, -inner), (inner, outer)] if level < 0 else [(-outer, outer)]
    rows = []
    for side, (left, right) in enumerate(islands):
        # Closer together at the ends, where the line turns.
        turn = np.sin(np.linspace(-np.pi / 2, np.pi / 2, 121))
        for a in (left + right) / 2 + (right - left) / 2 * turn:
            b = math.sqrt(max(0.0, 2 * level + a**2 - a**4 / 2))
            rows.append({"level": level, "side": side, "a": a, "low": -b, "high": b})
    return rows


def _marks(walk: Walk) -> list[alt.Chart]:
    """Label the start, the saddle and the minima."""
    places = [("start", *walk.epochs[0][0], 24, 0), ("saddle", *SADDLE, 32, 0)]
    places += [("minimum", *minimum, 0, 24) for minimum in MINIMA]
    fields = ("place", "a", "b", "right", "down")
    base = alt.Chart(inline([dict(zip(fields, one, strict=True)) for one in places])).encode(
        x=_x("a"), y=_y("b")
    )
    dot = base.mark_point(
        size=46, filled=True, fill="white", stroke=INK, strokeWidth=1.4, opacity=1
    )
    word = base.mark_text(
        fontSize=11.5, color=INK, dx=alt.expr("datum.right"), dy=alt.expr("datum.down")
    )
    return [dot, word.encode(text="place:N")]


def _x(field: str) -> alt.X:
    scale, axis = alt.Scale(domain=SIDES, nice=False), alt.Axis(values=[-1, 0, 1], format="d")
    return alt.X(f"{field}:Q", title="weight a", scale=scale, axis=axis)


def _y(field: str) -> alt.Y:
    scale, axis = alt.Scale(domain=HEIGHTS, nice=False), alt.Axis(values=[0, 1], format="d")
    return alt.Y(f"{field}:Q", title="weight b", scale=scale, axis=axis)


def save(chart: alt.FacetChart, path: Path) -> None:
    """Save in the format of the file name."""
    match path.suffix:
        case ".svg":
            path.write_text(to_svg(chart, "Paths of SGD, ASWA and NASWA past a saddle"))
        case ".html":
            path.write_text(chart.to_html(inline=True))
        case _:
            path.write_bytes(to_png(chart, scale=1.5))


def main() -> None:
    """Walk from every start by every rule, with several epoch lengths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--picture", type=Path)
    chosen = parser.parse_args()
    if chosen.starts < 2:
        parser.error("an interval needs at least 2 starts")
    lengths = {"none": (EPOCH,), "swa": (EPOCH,), "aswa": EPOCHS, "naswa": EPOCHS}
    found = {
        (rule, epoch): [walk(rule, epoch, seed, chosen.rate) for seed in range(chosen.starts)]
        for rule in NAMES
        for epoch in lengths[rule]
    }
    plain = found["none", EPOCH]
    print(f"| {' | '.join(COLUMNS)} |")
    print(f"|{'---|' * len(COLUMNS)}")
    for (rule, epoch), walks in found.items():
        print(row(NAMES[rule], "" if rule == "none" else epoch, walks, plain))
    if chosen.picture:
        drawn: tuple[AveragingRule, ...] = ("none", "aswa", "naswa")
        save(picture({NAMES[rule]: found[rule, EPOCH][0] for rule in drawn}), chosen.picture)


if __name__ == "__main__":
    main()
