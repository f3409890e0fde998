"""Where everything of a Hasse diagram stands: the simplest experts at the bottom.

A link that passes a level between its ends gets a place there, as in Sugiyama et al. (1981), so
that no line runs behind the box of an expert it has nothing to do with.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from whence.experts.diagram import Diagram

SWEEPS = 8
"""Times all levels are put in order, upwards and downwards in turn."""


class Place(NamedTuple):
    """An expert on its level, which is its own child and parent here, or a link that passes."""

    level: int
    child: int
    parent: int

    @property
    def is_expert(self) -> bool:
        """Whether a box stands there."""
        return self.child == self.parent


@dataclass(frozen=True)
class Layout:
    """Levels from the bottom, each from left to right, and the way of every link up."""

    levels: list[list[Place]]
    routes: list[list[Place]]


def lay_out(diagram: Diagram) -> Layout:
    """Neighbours in a level are those whose links lead to neighbours."""
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
    return Layout(levels, routes)


def _put_in_order(levels: list[list[Place]], routes: list[list[Place]]) -> None:
    """Every place goes to the mean of its neighbours' below, then above, and again."""
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
    """By the mean place of the neighbours, as shares of their levels; the rest stay."""

    def share(place: Place) -> float:
        return (levels[place.level].index(place) + 0.5) / len(levels[place.level])

    goal = {place: fmean(map(share, neighbours.get(place, [place]))) for place in row}
    row.sort(key=goal.__getitem__)
