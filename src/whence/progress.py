"""Progress on stderr, so that stdout holds results alone.

A terminal or a notebook gets a bar. Redirected output gets a plain line from time to time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from rich.filesize import decimal
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
from rich.table import Column

from whence.console import SafeConsole
from whence.text import visible

T = TypeVar("T")
FIRST_LINE_SECONDS = 10
"""Work that is done sooner prints no line to redirected output."""
SECONDS_BETWEEN_LINES = 30
WIDE = 110
"""Narrower terminals get a short bar."""
AT_MOST = "at most"
"""Said before the time that is left if the work may end early."""


class Bar:
    """Counts steps on a bar or in lines, with a short note such as the loss."""

    def __init__(
        self,
        title: str,
        total: int | None,
        columns: Sequence[ProgressColumn],
        *,
        done: int = 0,
        show: bool = True,
        transient: bool = False,
        may_end_early: bool = False,
        amount: Callable[[int], str] = "{:,}".format,
    ) -> None:
        console = SafeConsole(stderr=True)
        live = console.is_terminal or console.is_jupyter
        wide = console.width >= WIDE
        self._progress = Progress(
            TextColumn("{task.description}", markup=False, table_column=_whole()),
            # On a narrow terminal, the note needs the room of a bar that may never be full.
            *([BarColumn(bar_width=40 if wide else 8)] if wide or not may_end_early else []),
            *columns,
            *([TimeElapsedColumn(table_column=_whole())] if wide else []),
            *([TextColumn(AT_MOST, table_column=_whole())] if may_end_early else []),
            TimeRemainingColumn(compact=True, table_column=_whole()),
            TextColumn("left", table_column=_whole()),
            TextColumn("{task.fields[note]}", markup=False, table_column=Column()),
            console=console,
            disable=not (show and live),
            transient=transient,
        )
        self._task = self._progress.add_task(visible(title), total=total, completed=done, note="")
        lines = _Lines(title, total, done, amount, f"{AT_MOST} " if may_end_early else "")
        self._lines = lines if show and not live else None

    def track(
        self, steps: Iterable[T], size: Callable[[T], int] = lambda _: 1, done: int = 0
    ) -> Iterator[T]:
        """Yield the steps after the first `done` ones, and count each by its size once finished."""
        with self._progress:
            self._advance(done, finished_before=True)
            for step in islice(steps, done, None):
                yield step
                self._advance(size(step))
        if self._lines is not None:
            self._lines.finish()

    def say(self, note: str) -> None:
        """Show a short note after the bar, such as the loss."""
        self._progress.update(self._task, note=visible(note))
        if self._lines is not None:
            self._lines.note = note

    def _advance(self, count: int, finished_before: bool = False) -> None:
        self._progress.advance(self._task, count)
        if self._lines is not None:
            self._lines.advance(count, finished_before)


def _whole() -> Column:
    """Return a column that is never cut, so that the note gives way on a narrow terminal."""
    return Column(no_wrap=True)


class _Lines:
    """Prints the progress as a line: first after some seconds, then from time to time."""

    def __init__(
        self,
        title: str,
        total: int | None,
        done: int,
        amount: Callable[[int], str],
        bound: str = "",
    ) -> None:
        self.title, self.total, self.done, self.amount = title, total, done, amount
        self.bound = bound
        self.note = ""
        self.printed = False
        self.started = time.monotonic()
        self.started_at = done
        self.due = self.started + FIRST_LINE_SECONDS

    def advance(self, count: int, finished_before: bool) -> None:
        """Count, and print a line if one is due."""
        self.done += count
        now = time.monotonic()
        if finished_before:  # in an earlier process; says nothing about the speed of this one
            self.started_at = self.done
        elif now >= self.due:
            self.due = now + SECONDS_BETWEEN_LINES
            self.printed = True
            print_line(self._line(now - self.started))

    def finish(self) -> None:
        """Print how long it took, if there was a line before."""
        if self.printed:
            seconds = time.monotonic() - self.started
            print_line(f"{self.title}: done, {self.amount(self.done)} in {_duration(seconds)}")

    def _line(self, seconds: float) -> str:
        if not self.total:
            parts = [self.amount(self.done)]
        else:
            share = 100 * self.done // self.total
            parts = [f"{share} % ({self.amount(self.done)}/{self.amount(self.total)})"]
        if self.note:
            parts.append(self.note)
        if self.total and self.done > self.started_at:
            rate = (self.done - self.started_at) / seconds
            parts.append(f"{self.bound}{_duration((self.total - self.done) / rate)} left")
        return f"{self.title}: {', '.join(parts)}"


def progress_bar(
    title: str,
    total: int | None,
    show: bool = True,
    transient: bool = False,
    may_end_early: bool = False,
) -> Bar:
    """Return a bar that counts steps; a transient one vanishes from the terminal at the end.

    If the work may end early, the total and the time that is left are the most there can be.
    """
    columns = [MofNCompleteColumn(table_column=_whole())]
    return Bar(title, total, columns, show=show, transient=transient, may_end_early=may_end_early)


def download_bar(title: str, total: int | None, done: int = 0, show: bool = True) -> Bar:
    """Return a bar that counts bytes, of which some may be there already."""
    columns = [DownloadColumn(), TransferSpeedColumn()]
    return Bar(title, total, columns, done=done, show=show, amount=decimal)


def print_line(text: str, show: bool = True) -> None:
    """Print a line to stderr between bars."""
    if show:
        SafeConsole(stderr=True).print(text, highlight=False, soft_wrap=True)


def _duration(seconds: float) -> str:
    """Return "12 s", "3 min 20 s" or "2 h 5 min"."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
