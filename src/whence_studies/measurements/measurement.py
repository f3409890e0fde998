"""What a measurement is asked and what it answers: one value a seed in every column."""

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
    """One column of a study's table for one run.

    What is measured between seeds comes as jackknife pseudo-values, so that their mean and their
    interval are read like those of any other column.
    """

    per_seed: tuple[float, ...]
    """In the order of the run's seeds, or of the first ones."""
    n: int
    """Points a seed."""
    protocol: str
    direction: Direction
    label: str | None = None
    """What the column is about, where only the data know: the title of a film, say."""


@dataclass(frozen=True)
class MeasuredRun:
    """A trained run and what to measure it on."""

    run: Run
    split: Split
    held: HeldOut
    show_progress: bool = True


@dataclass(frozen=True)
class LinePlot:
    """Columns that are points of lines, and are drawn as such."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Mapping[float, str]]
    """By the line's name and x, the column of the point."""
    ideal: bool = False
    """Whether y would best be x, as confidence and accuracy; then that line is drawn, too."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Of all lines."""
        return tuple(column for line in self.lines.values() for column in line.values())


@dataclass(frozen=True, kw_only=True)
class GridPlot:
    """Columns that are cells of a grid."""

    title: str
    down: str
    across: str = ""
    cells: Mapping[tuple[str, str], str]
    """By the names down and across, the column of the cell."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Of all cells."""
        return tuple(self.cells.values())


@dataclass(frozen=True, kw_only=True)
class HeatMap(GridPlot):
    """Cells that are drawn as shades."""

    value: str
    middle: float = 0.0
    """The value that has no colour."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Where only the data know the names: by that across, the column whose label it stands for.

    Down, it is the labels of the cells.
    """


@dataclass(frozen=True, kw_only=True)
class SharePlot(GridPlot):
    """Cells that are shares, and are drawn as bars with their intervals."""


@dataclass(frozen=True)
class BarPlot:
    """Columns that are bars in panels side by side; labels say what each bar is of."""

    title: str
    about: str
    """The column, not itself a bar, whose label is what all bars speak of."""
    panels: Mapping[str, Mapping[str, str]]
    """By the panel's name and the bar's, the column; the same bars in every panel."""
    headings: tuple[str, str, str]
    """For the label of what is spoken of, the bars' names and their labels."""
    signed: tuple[str, ...]
    """The panels whose bars speak for or against."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Of all panels."""
        return tuple(column for panel in self.panels.values() for column in panel.values())


Figure = LinePlot | HeatMap | SharePlot | BarPlot


@dataclass(frozen=True)
class NoOptions:
    """Of a measurement that leaves nothing to choose."""


@dataclass(frozen=True)
class Measurement:
    """A measurement and the columns it gives, which are known before anything is trained."""

    columns: tuple[str, ...]
    of: Callable[[MeasuredRun, Any], Mapping[str, SeedColumn]]
    """From what is asked, and how it is to be measured."""
    options: type[DataclassInstance] = NoOptions
    """What can be chosen in how it is measured."""
    curves: Mapping[str, LinePlot] = field(default_factory=dict)
    maps: Mapping[str, HeatMap] = field(default_factory=dict)
    bars: Mapping[str, BarPlot | SharePlot] = field(default_factory=dict)

    @property
    def all_columns(self) -> tuple[str, ...]:
        """With those of its figures, each once."""
        figures: list[Figure] = [*self.curves.values(), *self.maps.values(), *self.bars.values()]
        drawn = (column for figure in figures for column in figure.columns)
        return tuple(dict.fromkeys((*self.columns, *drawn)))

    def choose(self, settings: Mapping[str, Any]) -> DataclassInstance:
        """The options with these settings, checked."""
        return build(self.options, settings)
