"""Progress bars on stderr, so that stdout holds results alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

T = TypeVar("T")


class Bar:
    """A bar that counts, and can say something beside it."""

    def __init__(self, progress: Progress, total: int | None, title: str, done: int = 0) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=total, completed=done, note="")

    def track(
        self, steps: Iterable[T], size: Callable[[T], int] = lambda _: 1, done: int = 0
    ) -> Iterator[T]:
        """The steps that are not `done` yet, counted as they are finished, each by its size."""
        with self._progress:
            self._progress.advance(self._task, done)
            for step in islice(steps, done, None):
                yield step
                self._progress.advance(self._task, size(step))

    def say(self, note: str) -> None:
        """A few words after the bar, such as the loss."""
        self._progress.update(self._task, note=note)


def progress_bar(title: str, total: int, show: bool = True, passing: bool = False) -> Bar:
    """A new bar that counts steps; when not shown, it counts in silence.

    A passing one vanishes when all is counted.
    """
    counts = (MofNCompleteColumn(), TimeElapsedColumn())
    return Bar(_progress(counts, show, passing), total, title)


def download_bar(title: str, total: int | None, done: int = 0, show: bool = True) -> Bar:
    """A new bar that counts bytes, of which some may be there already."""
    return Bar(_progress((DownloadColumn(), TransferSpeedColumn()), show), total, title, done)


def print_line(text: str, show: bool = True) -> None:
    """A line between the bars, such as how far the whole is."""
    if show:
        Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)


def _progress(counts: tuple[ProgressColumn, ...], show: bool, passing: bool = False) -> Progress:
    console = Console(stderr=True)
    # What would vanish on a terminal leaves empty lines in a file.
    show = show and (console.is_terminal or not passing)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *counts,
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not show,
        transient=passing,
    )
