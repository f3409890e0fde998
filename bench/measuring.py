"""Interleaved runs of commands, and the records of their figures."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

RUNS = 3


@dataclass(frozen=True)
class Record:
    """One figure compared with a peer's, or with a limit."""

    name: str
    ours: float
    peer: float
    peer_name: str
    unit: str
    floor: float = 1.0
    goal: float = 1.0
    more_is_better: bool = False
    """True for rates, false for seconds and bytes."""

    @property
    def ratio(self) -> float:
        """How many times better than the peer or the limit."""
        return self.ours / self.peer if self.more_is_better else self.peer / self.ours

    def as_dict(self) -> dict[str, Any]:
        """Return the record as results.json holds it."""
        fields = asdict(self)
        del fields["more_is_better"]
        return {
            **fields,
            "ours": round(self.ours, 4),
            "peer": round(self.peer, 4),
            "ratio": round(self.ratio, 2),
            "holds": self.ratio >= self.floor,
        }

    def __str__(self) -> str:
        verdict = "" if self.ratio >= self.floor else f", BELOW its floor of {self.floor:g}"
        return (
            f"{self.name}: {self.ours:.3g} {self.unit}, {self.peer_name} {self.peer:.3g} "
            f"{self.unit}: ratio {self.ratio:.2f}{verdict}"
        )


@dataclass(frozen=True)
class Cost:
    """Time and memory of one process."""

    seconds: float
    gigabytes: float
    """Peak resident memory."""


def cost_of(command: Sequence[object]) -> Cost:
    """Run a command, discard its output, and return its cost."""
    start = time.perf_counter()
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} failed: {errors.decode()}")
    return Cost(time.perf_counter() - start, usage.ru_maxrss / 1e6)


def whence(*arguments: object) -> list[object]:
    """Return a `whence` command with these arguments."""
    return [sys.executable, "-m", "whence", *arguments]


def in_turn(tasks: Mapping[str, Callable[[], float]], runs: int = RUNS) -> dict[str, float]:
    """Return the median of each task over interleaved runs."""
    figures = figures_in_turn(
        {name: (lambda task=task: {"it": task()}) for name, task in tasks.items()}, runs
    )
    return {name: found["it"] for name, found in figures.items()}


def figures_in_turn(
    tasks: Mapping[str, Callable[[], Mapping[str, float]]], runs: int = RUNS
) -> dict[str, dict[str, float]]:
    """Return the medians of tasks that have several figures, over interleaved runs."""
    taken: dict[str, list[Mapping[str, float]]] = {name: [] for name in tasks}
    for _ in range(runs):
        for name, task in tasks.items():
            taken[name].append(task())
    return {
        name: {figure: statistics.median(one[figure] for one in found) for figure in found[0]}
        for name, found in taken.items()
    }


def figures_of(command: Sequence[object]) -> dict[str, float]:
    """Run a script and return the JSON object in its last line of output."""
    done = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command} failed: {done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures
