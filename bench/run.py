"""Speed and memory, compared with limits or peers in the same run. `make bench` runs everything.

Every entry of bench/results.json is the median of interleaved runs, with the fields `name, ours,
peer, peer_name, unit, ratio, floor, goal, holds, machine`. The ratio is the peer's figure divided
by ours, and the inverse for rates: 2 is always twice as good as the peer or the limit.
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
import gpu_quality
import growth
import quality
import reasons
import seeds
import softmax
import start
import training
from measuring import Record

RESULTS = Path(__file__).parent / "results.json"
TABLE = RESULTS.with_suffix(".md")
HEAD = """# Speed and memory

Written by `make bench`, like [results.json](results.json). Figures are medians of at least three
interleaved runs, but the peer trains on Beauty only once. A ratio of 2 means twice as good as the
peer or the limit. Compared with a hardware limit, it is the share that we reach. A floor is the
lowest ratio we accept, and a goal the one we want.

| what | ours | compared with | ratio | floor | goal | machine |
|---|---|---|---|---|---|---|"""
GROUPS: dict[str, Callable[[], Iterable[Record]]] = {
    "start": start.measure,
    "data": data.measure,
    "training": training.measure,
    "quality": quality.measure,
    "growth": growth.measure,
    "softmax": softmax.measure,
    "cloze": cloze.measure,
    "collaborative": collaborative.measure,
    "seeds": seeds.measure,
    "explaining": explaining.measure,
    "reasons": reasons.measure,
    "experts": experts.measure,
    "gpu": gpu.measure,
    "gpu-explaining": gpu.explanations,
    "gpu-reasons": reasons.measure_on_gpu,
    "gpu-quality": gpu_quality.measure,
    "gpu-softmax": softmax.measure_on_gpu,
}


def main() -> None:
    """Measure, print and write the records of the named groups, and keep the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", help=f"any of {', '.join(GROUPS)}; default: all")
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))} CPU cores")
    chosen = parser.parse_args()
    records = {one["name"]: one for one in json.loads(RESULTS.read_text())}
    unknown = set(chosen.groups) - set(GROUPS)
    if unknown:
        parser.error(
            f"unknown group {', '.join(sorted(unknown))}. Choose from {', '.join(GROUPS)}."
        )
    for group in chosen.groups or GROUPS:
        for record in GROUPS[group]():
            records[record.name] = {**record.as_dict(), "machine": chosen.machine}
            print(record, flush=True)
        RESULTS.write_text(json.dumps(list(records.values()), indent=2) + "\n")
        TABLE.write_text(as_markdown(list(records.values())))


def as_markdown(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the records as a Markdown page."""
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
    """Format a number with three digits, or a large one as an integer."""
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


if __name__ == "__main__":
    main()
