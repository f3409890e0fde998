"""Waiting times of a new user: the help, the demo, a large world."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator

from measuring import Record, cost_of, in_turn, whence

LIMITS = {"world of ten million events": 60.0, "whence --help": 0.5, "whence demo": 180.0}


def ten_million_events() -> float:
    """Return the seconds to make a world of 20,000 items and ten million events."""
    from whence.worlds import WorldConfig, make_world

    start = time.perf_counter()
    make_world(WorldConfig(users=101_000, items=20_000, events=100))
    return time.perf_counter() - start


def measure() -> Iterator[Record]:
    """Yield each time compared with its limit."""
    with tempfile.TemporaryDirectory() as folder:
        demo = whence("demo", "--out", folder)
        taken = in_turn(
            {
                "world of ten million events": ten_million_events,
                "whence --help": lambda: cost_of(whence("--help")).seconds,
                "whence demo": lambda: cost_of(demo).seconds,
            }
        )
    for name, seconds in taken.items():
        yield Record(name, seconds, LIMITS[name], "limit", "s")
