"""Speed and memory, each beside a limit or a peer in one run; `make bench` runs all of it.

Every entry of bench/results.json is the median of interleaved runs, in the form `name, ours, peer,
peer_name, unit, ratio, floor, goal, holds, machine`. The ratio is the peer's figure divided by
ours, of rates the other way round: 2 is always twice as good as the peer, or as the limit asks.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cloze
import collaborative
import data
import experts
import explaining
import gpu
import growth
import seeds
import start
import training
from measuring import Record

RESULTS = Path(__file__).parent / "results.json"
TABLE = RESULTS.with_suffix(".md")
HEAD = """# Speed and memory

Written by `make bench` beside [results.json](results.json): medians of at least three runs in turn.
A ratio of 2 is twice as good as the peer, or as the limit asks; of a ceiling it is a share.

| what | ours | beside | ratio | floor | goal | machine |
|---|---|---|---|---|---|---|"""
GROUPS: dict[str, Callable[[], Iterable[Record]]] = {
    "start": start.measure,
    "data": data.measure,
    "training": training.measure,
    "growth": growth.measure,
    "cloze": cloze.measure,
    "collaborative": collaborative.measure,
    "seeds": seeds.measure,
    "explaining": explaining.measure,
    "experts": experts.measure,
    "gpu": gpu.measure,
    "gpu-explaining": gpu.explanations,
}


def main() -> None:
    """Measure, print and write the records; those of groups not asked for stay as they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))} CPU cores")
    chosen = parser.parse_args()
    records = {one["name"]: one for one in json.loads(RESULTS.read_text())}
    unknown = set(chosen.groups) - set(GROUPS)
    if unknown:
        parser.error(f"there is no group {', '.join(sorted(unknown))}; say {', '.join(GROUPS)}")
    for group in chosen.groups or GROUPS:
        for record in GROUPS[group]():
            records[record.name] = {**record.as_dict(), "machine": chosen.machine}
            print(record, flush=True)
        RESULTS.write_text(json.dumps(list(records.values()), indent=2) + "\n")
        TABLE.write_text(as_markdown(list(records.values())))


def as_markdown(records: Sequence[Mapping[str, Any]]) -> str:
    """The same figures as a page to read."""
    rows = [HEAD]
    for one in records:
        ratio = f"{one['ratio']:.3g}" + ("" if one["holds"] else " **below its floor**")
        floor, goal = (f"{one[name]:g}" if one[name] else "–" for name in ("floor", "goal"))
        rows.append(
            f"| {one['name']} | {readable(one['ours'])} {one['unit']} | {one['peer_name']} "
            f"{readable(one['peer'])} {one['unit']} | {ratio} | {floor} | {goal} | "
            f"{one['machine']} |"
        )
    return "\n".join(rows) + "\n"


def readable(value: float) -> str:
    """Three digits, or all of a large number."""
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


if __name__ == "__main__":
    main()
