"""Preparing data: time and memory for 25 million rows, growth with the rows, peers on Games."""

from __future__ import annotations

import gzip
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from measuring import RUNS, Cost, Record, cost_of, figures_of, in_turn, whence
from peers.environment import HERE, python_of

MILLIONS = (6.25, 12.5, 25.0)
SECONDS, GIGABYTES = 60.0, 4.0
MAX_SLOWDOWN = 1.25
"""A row may take this much longer in a file with four times as many rows."""
GAMES = "amazon-video-games-sasrec/Video.txt"
FASTER_THAN_PEERS = 20.0


def measure() -> Iterator[Record]:
    """Yield limits and growth, and the comparison with peers if the Games file is available."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from large_files(folder)
        games = games_file(folder)
        if games is None:
            print(f"Skipped the comparison with peers. Set WHENCE_DATA to a folder with {GAMES}.")
        else:
            yield from compare_with_peers(games)


def write_ratings(path: Path, rows: int) -> None:
    """Write an unsorted CSV file with the columns and value ranges of MovieLens 25M."""
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "userId": rng.integers(1, 162_542, rows),
            "movieId": (rng.pareto(1.2, rows) * 40).astype(np.int64) % 59_047 + 1,
            "rating": rng.integers(1, 11, rows) / 2,
            "timestamp": rng.integers(800_000_000, 1_600_000_000, rows),
        }
    )
    pa_csv.write_csv(table, path)


def large_files(folder: Path) -> Iterator[Record]:
    """Run the whole command `whence data prepare` on files of growing size in turn."""
    for millions in MILLIONS:
        write_ratings(folder / f"{millions}.csv", int(millions * 1_000_000))
    costs: dict[float, list[Cost]] = {millions: [] for millions in MILLIONS}
    for _ in range(RUNS):
        for millions, taken in costs.items():
            out = folder / "prepared"
            command = whence(
                "data", "prepare", folder / f"{millions}.csv", "--out", out, "--overwrite"
            )
            taken.append(cost_of(command))
    seconds = {n: statistics.median(one.seconds for one in taken) for n, taken in costs.items()}
    memory = {n: statistics.median(one.gigabytes for one in taken) for n, taken in costs.items()}
    least, most = MILLIONS[0], MILLIONS[-1]
    yield Record("preparing 25 million CSV rows", seconds[most], SECONDS, "limit", "s")
    yield Record("memory of preparing 25 million CSV rows", memory[most], GIGABYTES, "limit", "GB")
    for millions in MILLIONS[1:]:
        yield Record(
            f"preparing {millions:g} million CSV rows, per million",
            seconds[millions] / millions,
            seconds[least] / least,
            f"{least:g} million rows, per million",
            "s",
            floor=1 / MAX_SLOWDOWN,
        )


def games_file(folder: Path) -> Path | None:
    """Return the unpacked Games text file, or None."""
    path = Path(os.environ.get("WHENCE_DATA", "/nowhere")) / GAMES
    if path.exists():
        return path
    packed = path.with_name(f"{path.name}.gz")
    if not packed.exists():
        return None
    text = folder / path.name
    text.write_bytes(gzip.decompress(packed.read_bytes()))
    return text


def compare_with_peers(games: Path) -> Iterator[Record]:
    """Yield the time from the file to data ready for training, each run in its own process."""
    pythons = {name: python_of(name) for name in ("recbole", "rectools")}
    pythons["whence"] = Path(sys.executable)

    def seconds(name: str) -> float:
        return figures_of([pythons[name], HERE / f"prepare_{name}.py", games])["seconds"]

    taken = in_turn({name: (lambda name=name: seconds(name)) for name in pythons}, runs=5)
    for name, version in (("recbole", "RecBole 1.2.1"), ("rectools", "RecTools 0.19.0")):
        yield Record(
            f"preparing the Games text file, compared with {version}",
            taken["whence"],
            taken[name],
            version,
            "s",
            floor=FASTER_THAN_PEERS,
            goal=FASTER_THAN_PEERS,
        )
