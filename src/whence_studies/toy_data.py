"""The toy tasks of Afchar & Hennequin (2020): clusters for which the needed expert is known.

(a) has two clusters separated by x1 alone and two by x2 alone. (b) adds four outer ones that need
both. (d) puts (a) on the first two of four dimensions, and the four on the other two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import torch
from torch import Tensor

from whence.errors import InputError
from whence.experts.family import Family
from whence.randomness import Randomness

SPREAD: Final = 0.25
"""Standard deviation of every cluster, in each dimension that varies."""


class Cluster(NamedTuple):
    """A normal distribution about its centre."""

    centre: tuple[float, ...]
    label: int
    """Class 0 or 1, printed as −1 and 1."""
    expert: str
    """The expert that sees just enough to tell the class."""
    dimensions: tuple[int, ...] = (0, 1)
    """The dimensions that vary; all points are at 0 in the others."""


class ToyPoints(NamedTuple):
    """Points `[n, d]`, their classes `[n]`, and the numbers of the experts they need `[n]`."""

    rows: Tensor
    labels: Tensor
    experts: Tensor


@dataclass(frozen=True)
class Toy:
    """A toy task."""

    family: Family
    clusters: tuple[Cluster, ...]
    hidden_dims: tuple[int, ...]
    """Hidden dimensions of the published experts."""

    def draw(self, count: int, generator: torch.Generator) -> ToyPoints:
        """Draw equally many points of every cluster, one cluster after another."""
        if count < 1 or count % len(self.clusters):
            raise InputError(
                f"{count} points cannot be split equally among {len(self.clusters)} clusters. Draw "
                "a multiple."
            )
        of = torch.arange(len(self.clusters)).repeat_interleave(count // len(self.clusters))
        centres, spreads, labels, experts = self._tables
        noise = torch.randn(count, centres.shape[1], generator=generator)
        return ToyPoints(torch.addcmul(centres[of], noise, spreads[of]), labels[of], experts[of])

    def batches(self, steps: int, size: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield fresh points for every step."""
        generator = Randomness(seed).torch("batches")
        for _ in range(steps):
            drawn = self.draw(size, generator)
            yield drawn.rows, drawn.labels

    @cached_property
    def _tables(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Centres, standard deviations, classes and experts of the clusters."""
        spreads = torch.zeros(len(self.clusters), self.family.n_columns)
        for row, cluster in zip(spreads, self.clusters, strict=True):
            row[list(cluster.dimensions)] = SPREAD
        return (
            torch.tensor([cluster.centre for cluster in self.clusters]),
            spreads,
            torch.tensor([cluster.label for cluster in self.clusters]),
            torch.tensor([self.family.index(cluster.expert) for cluster in self.clusters]),
        )


def _crossed(x: str, y: str) -> tuple[Cluster, ...]:
    """Return four clusters at distance 1 along the axes: two separated by x, and two by y."""
    return (
        Cluster((-1.0, 0.0), 0, x),
        Cluster((1.0, 0.0), 1, x),
        Cluster((0.0, 1.0), 1, y),
        Cluster((0.0, -1.0), 0, y),
    )


def _diagonal(distance: float, both: str) -> tuple[Cluster, ...]:
    """Return four clusters in the corners; class 1 if the signs of x and y differ."""
    return tuple(
        Cluster((x * distance, y * distance), int(x != y), both) for y in (-1, 1) for x in (-1, 1)
    )


def _in_space(cluster: Cluster, first: int, dimensions: int) -> Cluster:
    """Return the same cluster in two of several dimensions, starting at `first`."""
    centre = [0.0] * dimensions
    centre[first : first + 2] = cluster.centre
    return cluster._replace(centre=tuple(centre), dimensions=(first, first + 1))


PLANE: Final = Family.of({"x1": [0], "x2": [1]}, {"S1": ["x1"], "S2": ["x2"], "S3": ["x1", "x2"]})
SPACE: Final = Family.of(
    {f"x{number + 1}": [number] for number in range(4)},
    {
        "S1": ["x1"],
        "S2": ["x2"],
        "S3": ["x3"],
        "S4": ["x4"],
        "S5": ["x1", "x2"],
        "S6": ["x3", "x4"],
        "S7": ["x1", "x2", "x3", "x4"],
    },
)
TOYS: Final = {
    "a": Toy(PLANE, _crossed("S1", "S2"), (8, 8)),
    "b": Toy(PLANE, _crossed("S1", "S2") + _diagonal(2.0, "S3"), (16, 16)),
    "d": Toy(
        SPACE,
        tuple(_in_space(cluster, 0, 4) for cluster in _crossed("S1", "S2"))
        + tuple(_in_space(cluster, 2, 4) for cluster in _diagonal(1.0, "S6")),
        (16, 16),
    ),
}
