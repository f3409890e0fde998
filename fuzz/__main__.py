"""`make fuzz`: a bounded number of attempts from one seed. Every failure names its case.

The counts and failures of a whole run are written to fuzz/results.json, and to the table of
docs/security.md. The exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import whence
from fuzz.files import fuzz_files
from fuzz.folders import fuzz_folders
from fuzz.kills import kill_commands
from fuzz.report import Report

Part = Callable[[int, int, Path], Report]
PARTS: dict[str, tuple[Part, int, str]] = {
    "files": (fuzz_files, 100_000, "mutated files, over all readers"),
    "folders": (fuzz_folders, 1_000, "mutated run and prepared folders"),
    "kills": (kill_commands, 200, "kills of train, prepare, audit and study"),
}
SEED = 2026
ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "fuzz" / "results.json"
PAGE = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- fuzzing -->\n", "<!-- end of fuzzing -->\n"
MEMORY = Path("/dev/shm")
"""A file system in memory, if there is one: most of the work is to write small files."""


def main() -> None:
    """Run the parts that are named, by default all, and write what they showed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)}; by default all")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, help="attempts of each part; nothing is written")
    chosen = parser.parse_args()
    found = [
        _attempt(name, chosen.seed, chosen.count or PARTS[name][1])
        for name in chosen.parts or PARTS
    ]
    if chosen.count is None:
        _write(found)
    sys.exit(any(one["failures"] for one in found))


def _attempt(name: str, seed: int, count: int) -> dict[str, object]:
    part, _, what = PARTS[name]
    print(f"{count:,} {what}, seed {seed} …", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        report = part(count, seed, Path(folder))
    seconds = round(time.monotonic() - started)
    for failure in report.failures:
        print(failure, file=sys.stderr)
    print(f"{len(report.failures)} failures in {seconds} s", flush=True)
    return {**asdict(report), "seed": seed, "seconds": seconds, "whence": whence.__version__}


def _write(found: list[dict[str, object]]) -> None:
    """Keep the results of parts that were not run."""
    former = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    known = {one["name"]: one for one in former}
    known |= {one["name"]: one for one in found}
    records = [known[name] for name in PARTS if name in known]
    RESULTS.write_text(json.dumps(records, indent=2) + "\n")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + table(records) + END + rest.partition(END)[2])


def table(records: list[dict[str, object]]) -> str:
    """Return the results as a table, as the page shows them."""
    lines = ["| what | tried | failed | seconds |", "|---|---|---|---|"]
    for one in records:
        failures = one["failures"]
        assert isinstance(failures, list | tuple)
        what = PARTS[str(one["name"])][2]
        lines.append(f"| {what} | {one['tried']:,} | {len(failures)} | {one['seconds']} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
