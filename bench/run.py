"""Speed and memory, each beside a limit or a peer in one run; `make bench` runs all of it.

Every entry of bench/results.json is the median of interleaved runs, in the form `name, ours, peer,
peer_name, unit, ratio, floor, goal, holds, machine`. The ratio is the peer's figure divided by
ours, of rates the other way round: 2 is always twice as good as the peer, or as the limit asks.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import data
import gpu
import growth
import start
import training
from measuring import Record

RESULTS = Path(__file__).parent / "results.json"
GROUPS: dict[str, Callable[[], Iterable[Record]]] = {
    "start": start.measure,
    "data": data.measure,
    "training": training.measure,
    "growth": growth.measure,
    "gpu": gpu.measure,
}


def main() -> None:
    """Measure, print and write the records; those of groups not asked for stay as they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))} CPU cores")
    chosen = parser.parse_args()
    records = {one["name"]: one for one in json.loads(RESULTS.read_text())}
    for group in chosen.groups or GROUPS:
        for record in GROUPS[group]():
            records[record.name] = {**record.as_dict(), "machine": chosen.machine}
            print(record, flush=True)
    RESULTS.write_text(json.dumps(list(records.values()), indent=2) + "\n")


if __name__ == "__main__":
    main()
