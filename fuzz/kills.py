"""Kill real commands at random moments, repeat them, and compare every byte of what they wrote."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

import whence
from fuzz.forking import KILLED, content, draw_nothing, end, start
from fuzz.report import Report
from whence.cli import main
from whence.worlds import WorldConfig, make_world

LAST_CHANGES = 60
"""Most kills by a change hit one of the last, when a command puts its results in place."""
WARM = (
    "altair",
    "whence.report.audit_page",
    "whence.report.tables",
    "whence.trust.audit.auditor",
    "whence_studies.runner",
    "whence_studies.charts.study_page",
)
"""What the commands import when they run, imported once for all of them."""
MOST_TRIES = 6
SMALL = "steps=30,dim=4,max_len=4,batch_size=16,n_blocks=1"
STUDY = """
title = "A study to be killed"
source = "new here"
measurements = ["accuracy"]
seeds = 2
held = "validation"
training = {{ batch_size = 16, steps = 20 }}
[datasets]
World = {{ data = "{data}", settings = {{ max_len = 4, dim = 4 }} }}
[models]
SASRec = {{ name = "sasrec" }}
[variants]
one = {{ settings = {{ n_blocks = 1 }} }}
"""


@dataclass(frozen=True)
class Undisturbed:
    """What a command does if nobody kills it."""

    files: Mapping[str, bytes | None]
    seconds: float
    changes: int
    """How often it creates, renames or removes something."""


def kill_commands(count: int, seed: int, folder: Path) -> Report:
    """Kill commands that many times in an empty folder, and repeat each until it succeeds."""
    # The commands run in forks of a new process, which has no threads that a fork would lose.
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        return fresh.submit(_kill_commands, count, seed, folder).result()


def _kill_commands(count: int, seed: int, folder: Path) -> Report:
    torch.set_num_threads(1)
    for module in WARM:
        import_module(module)
    rng = np.random.default_rng(seed)
    commands = _commands(folder)
    calm = {name: _run_calmly(words, folder / "place") for name, words in commands.items()}
    failures: list[str] = []
    notes: Counter[str] = Counter()
    killed = 0
    while killed < count:
        name = list(commands)[killed % len(commands)]
        attempt = Attempt(commands[name], folder / "place", calm[name])
        kills, problem = attempt.kill_and_repeat(rng, count - killed)
        killed += kills
        notes[f"kills of {name}"] += kills
        if problem:
            failures.append(f"{name}: {problem}")
    return Report("kills", killed, tuple(failures), dict(notes))


def _commands(folder: Path) -> dict[str, list[str]]:
    """Write what the commands read, and return their words."""
    world = make_world(WorldConfig(users=30, items=25, events=6, genres=2, seed=1))
    data, place = world.interactions, folder / "place"
    prepared, run = data.save(folder / "prepared"), folder / "run"
    users, items = data.user_of_event().tolist(), data.items.tolist()
    pairs = enumerate(zip(users, items, strict=True))
    table = "".join(f"{user},{item},{time}\n" for time, (user, item) in pairs)
    (folder / "events.csv").write_text("user,item,time\n" + table)
    small = {"dim": 4, "max_len": 4, "n_blocks": 1}
    whence.train(data, model_settings=small, training={"steps": 5}, out=run, show_progress=False)
    (folder / "killed.toml").write_text(STUDY.format(data=prepared))
    out = ["--out", str(place / "out")]
    return {
        "train": ["train", str(folder / "events.csv"), *out, "--set", f"{SMALL},snapshots=2"],
        "data prepare": ["data", "prepare", str(folder / "events.csv"), *out],
        "audit": ["audit", str(run), *out, "--stages", "accuracy,agreement", "--cases", "5"],
        "study run": ["study", "run", str(folder / "killed.toml"), *out],
    }


def _work(words: list[str], place: Path) -> Callable[[], None]:
    """Return a function that runs a command; what it prints goes to a file next to the place."""

    def work() -> None:
        os.environ["WHENCE_CACHE"] = str(place / "cache")
        if words[0] == "study":
            draw_nothing()
        sys.argv = ["whence", *words]
        with (
            place.with_name("said").open("w") as said,
            redirect_stdout(said),
            redirect_stderr(said),
        ):
            warnings.simplefilter("ignore")
            try:
                main()
            except SystemExit as ended:
                said.flush()
                os._exit(ended.code if isinstance(ended.code, int) else 0)

    return work


def _empty(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()


def _run_calmly(words: list[str], place: Path) -> Undisturbed:
    _empty(place)
    counted = place.with_name("changes")
    counted.write_bytes(b"")
    with counted.open("ab", buffering=0) as tally:
        begin = time.monotonic()
        code = end(start(_work(words, place), on_change=lambda: tally.write(b".")))
        seconds = time.monotonic() - begin
    if code != 0:
        raise RuntimeError(f"{words} ended with {code}: {place.with_name('said').read_text()}")
    return Undisturbed(content(place), seconds, counted.stat().st_size)


@dataclass(frozen=True)
class Attempt:
    """One command that is killed, maybe several times, and repeated until it succeeds."""

    words: list[str]
    place: Path
    calm: Undisturbed

    def kill_and_repeat(self, rng: np.random.Generator, most: int) -> tuple[int, str]:
        """Return how often it was killed, and what was wrong in the end, if anything was."""
        _empty(self.place)
        kills, moments = 0, []
        while kills < most and (kills == 0 or rng.random() < 0.3):
            moment, code = self._kill_once(rng)
            moments.append(moment)
            if code == 0:  # it was faster
                break
            if code != KILLED and content(self.place) != self.calm.files:
                return kills + 1, f"it ended with {code}, {moments}: {self._said()}"
            kills += 1
        return max(kills, 1), self._repeat(moments)

    def _kill_once(self, rng: np.random.Generator) -> tuple[str, int]:
        work = _work(self.words, self.place)
        if rng.random() < 0.5:
            seconds = float(rng.uniform(0, self.calm.seconds))
            child = start(work)
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
            return f"killed after {seconds:.3f} s", end(child)
        first = 1 if rng.random() < 0.3 else max(1, self.calm.changes - LAST_CHANGES)
        change = int(rng.integers(first, self.calm.changes + 1))
        return f"killed before change {change}", end(start(work, kill_at=change))

    def _repeat(self, moments: list[str]) -> str:
        for _ in range(MOST_TRIES):
            before = content(self.place)
            code = end(start(_work(self.words, self.place)))
            if code == 0 or before == self.calm.files:  # then it may say that all is there
                break
            return f"repeated, it ended with {code}, {moments}: {self._said()}"
        after = content(self.place)
        differ = sorted(name for name in {**after, **self.calm.files}
                        if after.get(name, b"") != self.calm.files.get(name, b""))  # fmt: skip
        differ += sorted(after.keys() ^ self.calm.files.keys())
        return f"other files than undisturbed, {moments}: {differ[:5]}" if differ else ""

    def _said(self) -> str:
        return self.place.with_name("said").read_text()[-300:]
