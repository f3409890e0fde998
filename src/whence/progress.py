"""Progress bars on stderr, so that stdout holds results alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

T = TypeVar("T")


class Bar:
    """A bar that counts, and can say something beside it."""

    def __init__(self, progress: Progress, total: int, title: str) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=total, note="")

    def track(self, steps: Iterable[T]) -> Iterator[T]:
        """The same steps, counted as they are finished."""
        with self._progress:
            for step in steps:
                yield step
                self._progress.advance(self._task)

    def say(self, note: str) -> None:
        """A few words after the bar, such as the loss."""
        self._progress.update(self._task, note=note)


def progress_bar(title: str, total: int, show: bool = True) -> Bar:
    """A new bar; when not shown, it counts in silence."""
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
        disable=not show,
    )
    return Bar(progress, total, title)
