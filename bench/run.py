"""Speed, each time beside a limit or a peer in one run; `make bench` runs it.

Every entry of bench/results.json is the median of interleaved runs, in the form `name, ours, peer,
peer_name, unit, ratio, floor, goal, holds, machine`. For a limit the ratio is the limit divided by
what was measured: 2 means in half the time allowed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parent / "results.json"
RUNS = 3


def seconds(action: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def make_ten_million_events() -> None:
    """A world of 100,000 users, 20,000 items and ten million events."""
    from whence.worlds import WorldConfig, make_world

    make_world(WorldConfig(users=101_000, items=20_000, events=100))


def whence(*arguments: str) -> Callable[[], object]:
    """A whole command, from its start."""
    return lambda: subprocess.run(
        [sys.executable, "-m", "whence", *arguments], check=True, capture_output=True
    )


def within_limits(folder: str) -> dict[str, tuple[Callable[[], object], float]]:
    """What must be done within so many seconds."""
    return {
        "world of ten million events": (make_ten_million_events, 60.0),
        "whence --help": (whence("--help"), 0.5),
        "whence demo": (whence("demo", "--out", folder), 180.0),
    }


def main() -> None:
    """Measure, print and write the records."""
    machine = f"{len(os.sched_getaffinity(0))} CPU cores"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", default=machine, help="how to name this machine")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tasks = within_limits(folder)
        times: dict[str, list[float]] = {name: [] for name in tasks}
        for _ in range(RUNS):
            for name, (action, _limit) in tasks.items():
                times[name].append(seconds(action))
    records = []
    for name, (_, limit) in tasks.items():
        ours = statistics.median(times[name])
        record = {
            "name": name,
            "ours": round(ours, 3),
            "peer": limit,
            "peer_name": "limit",
            "unit": "s",
            "ratio": round(limit / ours, 2),
            "floor": 1.0,
            "goal": 1.0,
            "holds": ours <= limit,
            "machine": chosen.machine,
        }
        records.append(record)
        print(f"{name}: {ours:.2f} s of {limit:g} s allowed")
    RESULTS.write_text(json.dumps(records, indent=2) + "\n")


if __name__ == "__main__":
    main()
