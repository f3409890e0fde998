"""The Hasse diagram of a family: which expert contains which, without implied links."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from whence.experts.family import Family
from whence.text import visible


@dataclass(frozen=True)
class Diagram:
    """Experts by number, in the family's order."""

    levels: tuple[tuple[int, ...], ...]
    """The simplest experts come first; others are one level above the highest they contain."""
    children: tuple[tuple[int, ...], ...]
    """The largest experts that each expert contains, with no other between."""
    parents: tuple[tuple[int, ...], ...]
    """The smallest experts that contain each expert."""

    @property
    def links(self) -> tuple[tuple[int, int], ...]:
        """All pairs of child and parent."""
        return tuple(
            (child, parent) for parent, below in enumerate(self.children) for child in below
        )


def diagram_of(family: Family) -> Diagram:
    """Return the diagram that follows from inclusion."""
    contained = family.contained
    heights: list[int] = []
    for inside in contained:  # contained experts come first
        heights.append(1 + max((heights[other] for other in inside), default=-1))
    children = tuple(
        tuple(child for child in inside if not any(child in contained[other] for other in inside))
        for inside in contained
    )
    experts = range(len(family))
    return Diagram(
        levels=tuple(
            tuple(one for one in experts if heights[one] == level)
            for level in range(max(heights) + 1)
        ),
        children=children,
        parents=tuple(
            tuple(other for other in experts if one in children[other]) for one in experts
        ),
    )


SWEEPS = 8
"""Sweeps that sort all levels, alternately upwards and downwards."""


class Place(NamedTuple):
    """A place on a level: an expert (then child and parent are both itself) or a passing link."""

    level: int
    child: int
    parent: int

    @property
    def is_expert(self) -> bool:
        """Whether the place holds an expert's box."""
        return self.child == self.parent


@dataclass(frozen=True)
class DiagramLayout:
    """The levels from the bottom, each from left to right, and the route of every link upwards."""

    levels: list[list[Place]]
    routes: list[list[Place]]


def lay_out(diagram: Diagram) -> DiagramLayout:
    """Order every level so that linked places are close to each other."""
    levels = [
        [Place(level, expert, expert) for expert in row] for level, row in enumerate(diagram.levels)
    ]
    home = {place.child: place for row in levels for place in row}
    routes = []
    for child, parent in diagram.links:
        passed = range(home[child].level + 1, home[parent].level)
        way = [Place(level, child, parent) for level in passed]
        for place in way:
            levels[place.level].append(place)
        routes.append([home[child], *way, home[parent]])
    _put_in_order(levels, routes)
    return DiagramLayout(levels, routes)


def _put_in_order(levels: list[list[Place]], routes: list[list[Place]]) -> None:
    """Move every place towards the mean of its neighbours below, then above, and repeat."""
    below: dict[Place, list[Place]] = {}
    above: dict[Place, list[Place]] = {}
    for low, high in (pair for route in routes for pair in pairwise(route)):
        below.setdefault(high, []).append(low)
        above.setdefault(low, []).append(high)
    for sweep in range(SWEEPS):
        neighbours, rows = (below, levels) if sweep % 2 == 0 else (above, levels[::-1])
        for row in rows:
            _sort_row(row, neighbours, levels)


def _sort_row(
    row: list[Place], neighbours: dict[Place, list[Place]], levels: list[list[Place]]
) -> None:
    """Sort by the mean relative position of the neighbours; places without neighbours stay."""

    def share(place: Place) -> float:
        return (levels[place.level].index(place) + 0.5) / len(levels[place.level])

    goal = {place: fmean(map(share, neighbours.get(place, [place]))) for place in row}
    row.sort(key=goal.__getitem__)


COLOURS = ("#3d5a80", "#b3423a", "#2a7f62", "#a36a00", "#7a4988", "#00798c", "#8c5a3c", "#5f6b73")
"""Cycled over the groups; a group's name is always next to its colour."""
INK, LINE, PAPER, BOX = "#222222", "#8a8a8a", "#ffffff", "#f7f5f0"
FONT = "system-ui, sans-serif"
LETTER, ROW, HEAD, EDGE = 7.2, 18, 26, 12
"""Width of a letter, heights of a group's row and of a box's head, and the inner margin."""
BETWEEN, RISE, PASS = 22, 56, 14
"""Gap between boxes, gap between levels, and width of a passing link."""


def draw_family(family: Family) -> str:
    """Return the inclusion diagram as an SVG document."""
    layout = lay_out(diagram_of(family))
    texts = [*family.names, *family.group_names]
    width = max(72.0, LETTER * max(map(len, texts)) + 2 * EDGE + 14)
    across = _across(layout, width)
    tops, height = _tops(layout, family)
    total = max(_extent(row, width) for row in layout.levels) + 2 * BETWEEN
    drawn = [_link(route, across, tops, family) for route in layout.routes]
    drawn += [
        _box(family, place.child, across[place], tops[place.level], width)
        for row in layout.levels
        for place in row
        if place.is_expert
    ]
    words = escape(_in_words(family))
    return visible(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {total:.0f} {height:.0f}" role="img" font-family="{FONT}" font-size="13">'
        f"<title>Which expert may see what</title><desc>{words}</desc>"
        f'<rect width="100%" height="100%" fill="{PAPER}"/>' + "".join(drawn) + "</svg>"
    )


def _in_words(family: Family) -> str:
    """Describe the diagram for screen readers."""
    return " ".join(f"{subset.name} sees {', '.join(subset.groups)}." for subset in family.subsets)


def _extent(row: list[Place], width: float) -> float:
    """Return the width of a level."""
    return sum(width if place.is_expert else PASS for place in row) + BETWEEN * (len(row) - 1)


def _across(layout: DiagramLayout, width: float) -> dict[Place, float]:
    """Return the horizontal centre of every place, with each level centred."""
    total = max(_extent(row, width) for row in layout.levels) + 2 * BETWEEN
    middles: dict[Place, float] = {}
    for row in layout.levels:
        left = (total - _extent(row, width)) / 2
        for place in row:
            own = width if place.is_expert else PASS
            middles[place] = left + own / 2
            left += own + BETWEEN
    return middles


def _height(family: Family, expert: int) -> float:
    return HEAD + ROW * len(family.subsets[expert].groups) + EDGE / 2


def _tops(layout: DiagramLayout, family: Family) -> tuple[list[float], float]:
    """Return the top of each level's boxes, and the height of the whole drawing."""
    heights = [
        max(_height(family, place.child) for place in row if place.is_expert)
        for row in layout.levels
    ]
    tops, down = [0.0] * len(heights), float(BETWEEN)
    for level in reversed(range(len(heights))):
        tops[level] = down
        down += heights[level] + RISE
    return tops, down - RISE + BETWEEN


def _link(route: list[Place], across: dict[Place, float], tops: list[float], family: Family) -> str:
    """Draw a line from the top of the child to the bottom of the parent."""
    child, parent = route[0], route[-1]
    bottom = tops[parent.level] + _height(family, parent.child)
    path = f"M{across[child]:.1f} {tops[child.level]:.1f}"
    points = [(across[child], tops[child.level])]
    for place in route[1:-1]:
        points.append((across[place], tops[place.level - 1] - RISE))
        points.append((across[place], tops[place.level]))
    points.append((across[parent], bottom))
    for (x, y), (next_x, next_y) in pairwise(points):
        bend = (y + next_y) / 2
        path += f"C{x:.1f} {bend:.1f} {next_x:.1f} {bend:.1f} {next_x:.1f} {next_y:.1f}"
    return f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.5"/>'


def _box(family: Family, expert: int, middle: float, top: float, width: float) -> str:
    subset = family.subsets[expert]
    left = middle - width / 2
    drawn = (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
        f'height="{_height(family, expert):.1f}" rx="6" fill="{BOX}" stroke="{LINE}"/>'
        f'<text x="{middle:.1f}" y="{top + 18:.1f}" text-anchor="middle" font-weight="600" '
        f'fill="{INK}">{escape(subset.name)}</text>'
    )
    seen = [number for number, sees in enumerate(family.sees[expert]) if sees]
    for row, number in enumerate(seen):
        line = top + HEAD + ROW * row + ROW / 2
        drawn += (
            f'<circle cx="{left + EDGE + 4:.1f}" cy="{line:.1f}" r="4.5" '
            f'fill="{COLOURS[number % len(COLOURS)]}"/>'
            f'<text x="{left + EDGE + 14:.1f}" y="{line + 4.5:.1f}" fill="{INK}">'
            f"{escape(family.groups[number].name)}</text>"
        )
    return drawn
