"""Progress that is redirected, and progress on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from whence import progress
from whence.progress import Bar, download_bar, progress_bar


class Clock:
    """A time that passes when it is told to."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def work(bar: Bar, clock: Clock, steps: int, seconds: float, done: int = 0) -> Iterator[int]:
    for step in bar.track(range(steps), done=done):
        clock.now += seconds
        yield step


def test_redirected_progress_is_a_line_now_and_then(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    bar = progress_bar("training sasrec, seed 0", 3_200)
    for step in work(bar, clock, 3_200, 1 / 64):
        bar.say(f"loss {1 / (1 + step):.3f}")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "training sasrec, seed 0: 20 % (640/3,200), loss 0.002, 40 s left",
        "training sasrec, seed 0: 80 % (2,560/3,200), loss 0.000, 10 s left",
        "training sasrec, seed 0: done, 3,200 in 50 s",
    ]


def test_short_work_prints_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(work(progress_bar("ranking", 9, transient=True), clock, 9, 1.0)) == list(range(9))
    assert capsys.readouterr().err == ""


def test_what_is_not_shown_prints_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    list(work(progress_bar("ranking", 90, show=False), clock, 90, 1.0))
    assert capsys.readouterr().err == ""


def test_steps_of_an_earlier_process_do_not_count_as_speed(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    left = list(work(progress_bar("training", 100), clock, 100, 1.0, done=80))
    assert left == list(range(80, 100))
    assert "training: 90 % (90/100), 10 s left\n" in capsys.readouterr().err


def test_bytes_are_counted_in_their_units(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    for total in (8_000_000, None):
        for _ in download_bar("ml-1m.zip", total, 2_000_000).track([b"x"] * 3, lambda _: 2 * 10**6):
            clock.now += 15
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "ml-1m.zip: 50 % (4.0 MB/8.0 MB), 30 s left"
    assert "ml-1m.zip: 4.0 MB" in lines


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.6, "5 s"), (200, "3 min 20 s"), (7_500, "2 h 5 min")]
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert progress._duration(seconds) == text


def test_a_terminal_gets_a_bar(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    list(work(progress_bar("training", 90), clock, 90, 1.0))
    printed = capsys.readouterr().err
    assert "90/90" in printed
    assert "% (" not in printed


@pytest.mark.parametrize("columns", [80, 140])
def test_work_that_may_end_early_says_the_most_that_is_left(
    columns: int, clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is cut on a narrow terminal."""
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", str(columns))):
        monkeypatch.setenv(name, value)
    bar = progress_bar("training sasrec, seeds 0–4", 5_000, may_end_early=True)
    for step in work(bar, clock, 5_000, 1.0):
        bar.say("best NDCG@10 0.788, loss 1.036")
        if step == 700:
            break
    printed = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", capsys.readouterr().err)
    for part in ("seeds 0–4", "/5000", "at most", "left", "best NDCG@10 0.788", "loss", "1.036"):
        assert part in printed
    assert "…" not in printed


def test_redirected_work_that_may_end_early(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in work(progress_bar("training", 100, may_end_early=True), clock, 100, 1.0):
        if step == 20:
            break
    assert "training: 10 % (10/100), at most 1 min 30 s left\n" in capsys.readouterr().err
