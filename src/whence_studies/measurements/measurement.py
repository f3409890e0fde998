"""A measurement of a trained run: one value per seed in every column, and figures of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whence.config import build
from whence.data.splits import HeldOut, Split
from whence.measure import Direction
from whence.run import Run

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class SeedColumn:
    """One measured column of one run.

    Comparisons between seeds come as jackknife pseudo-values, so that their mean and interval are
    computed like those of any other column.
    """

    per_seed: tuple[float, ...]
    """In the order of the run's seeds, or of the first ones."""
    n: int
    """Cases per seed."""
    protocol: str
    direction: Direction
    label: str | None = None
    """What the column is about if only the data know, such as the title of a film."""
    interval: tuple[float, float] | None = None
    """The 95 % interval over users, of a measurement whose intervals are not over seeds."""
    spread: float | None = None
    """The standard deviation that belongs to it."""


@dataclass(frozen=True)
class MeasuredRun:
    """A trained run, and the events to measure it on."""

    run: Run
    split: Split
    held: HeldOut
    show_progress: bool = True


@dataclass(frozen=True)
class LinePlot:
    """Columns that are points of lines."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Mapping[float, str]]
    """By the name of a line and x: the column of the point."""
    ideal: bool = False
    """Whether y = x would be ideal, as for confidence and accuracy; that line is drawn too."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of all lines."""
        return tuple(column for line in self.lines.values() for column in line.values())


@dataclass(frozen=True, kw_only=True)
class GridPlot:
    """Columns that are cells of a grid."""

    title: str
    down: str
    across: str = ""
    cells: Mapping[tuple[str, str], str]
    """By the names down and across: the column of the cell."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of all cells."""
        return tuple(self.cells.values())


@dataclass(frozen=True, kw_only=True)
class HeatMap(GridPlot):
    """Cells drawn as shades."""

    value: str
    middle: float = 0.0
    """The value without colour."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """By the name across: the column whose label replaces it, if only the data know the names.

    Down, the labels of the cells replace the names.
    """


@dataclass(frozen=True, kw_only=True)
class SharePlot(GridPlot):
    """Cells that are shares, drawn as bars with intervals."""


@dataclass(frozen=True)
class BarPlot:
    """Columns that are bars in adjacent panels; the label of a column names its bar."""

    title: str
    about: str
    """The column, not itself a bar, whose label names what all bars explain."""
    panels: Mapping[str, Mapping[str, str]]
    """By the names of a panel and a bar: the column; every panel has the same bars."""
    headings: tuple[str, str, str]
    """Headings for what is explained, the bars' names and the bars' labels."""
    signed: tuple[str, ...]
    """The panels whose bars have a sign."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of all panels."""
        return tuple(column for panel in self.panels.values() for column in panel.values())


Figure = LinePlot | HeatMap | SharePlot | BarPlot


@dataclass(frozen=True)
class NoOptions:
    """The options of a measurement that has none."""


@dataclass(frozen=True)
class Measurement:
    """A measurement, and the columns it gives; these are known before anything is trained."""

    columns: tuple[str, ...]
    measure: Callable[[MeasuredRun, Any], Mapping[str, SeedColumn]]
    """From a run and the options, the columns."""
    options: type[DataclassInstance] = NoOptions
    curves: Mapping[str, LinePlot] = field(default_factory=dict)
    maps: Mapping[str, HeatMap] = field(default_factory=dict)
    bars: Mapping[str, BarPlot | SharePlot] = field(default_factory=dict)
    over_users: bool = False
    """Whether its columns come with intervals over users instead of one over seeds."""
    edition: int = 1
    """Raise it when the same columns are measured in another way: cached values do not count."""

    @property
    def all_columns(self) -> tuple[str, ...]:
        """Its columns and those of its figures, each once."""
        figures: list[Figure] = [*self.curves.values(), *self.maps.values(), *self.bars.values()]
        drawn = (column for figure in figures for column in figure.columns)
        return tuple(dict.fromkeys((*self.columns, *drawn)))

    def build_options(self, settings: Mapping[str, Any]) -> DataclassInstance:
        """Return the options with these settings, checked."""
        return build(self.options, settings)
