"""From files to data: 25 million rows within limits, growth with the rows, and peers on Games."""

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
DEARER_BY = 1.25
"""How much more a row may cost among four times as many, and still count as linear."""
GAMES = "amazon-video-games-sasrec/Video.txt"
FASTER_THAN_PEERS = 20.0


def measure() -> Iterator[Record]:
    """Limits and growth always; the peers where the Games file is."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from large_files(folder)
        games = games_file(folder)
        if games is None:
            print(f"no peers: WHENCE_DATA names no folder with {GAMES}")
        else:
            yield from beside_peers(games)


def write_ratings(path: Path, rows: int) -> None:
    """A CSV file of the size and shape of MovieLens 25M's, its rows in no order."""
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
    """`whence data prepare`, the whole command, on files of growing size in turn."""
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
    yield Record("25 million CSV rows prepared", seconds[most], SECONDS, "limit", "s")
    yield Record("memory for 25 million CSV rows", memory[most], GIGABYTES, "limit", "GB")
    for millions in MILLIONS[1:]:
        yield Record(
            f"a million of {millions:g} million CSV rows prepared",
            seconds[millions] / millions,
            seconds[least] / least,
            f"a million of {least:g} million",
            "s",
            floor=1 / DEARER_BY,
        )


def games_file(folder: Path) -> Path | None:
    """The Games text file, unpacked."""
    path = Path(os.environ.get("WHENCE_DATA", "/nowhere")) / GAMES
    if path.exists():
        return path
    packed = path.with_name(f"{path.name}.gz")
    if not packed.exists():
        return None
    text = folder / path.name
    text.write_bytes(gzip.decompress(packed.read_bytes()))
    return text


def beside_peers(games: Path) -> Iterator[Record]:
    """Seconds from the file to data that training can begin with, each in a process of its own."""
    pythons = {name: python_of(name) for name in ("recbole", "rectools")}
    pythons["whence"] = Path(sys.executable)

    def seconds(name: str) -> float:
        return figures_of([pythons[name], HERE / f"prepare_{name}.py", games])["seconds"]

    taken = in_turn({name: (lambda name=name: seconds(name)) for name in pythons}, runs=5)
    for name, version in (("recbole", "RecBole 1.2.1"), ("rectools", "RecTools 0.19.0")):
        yield Record(
            f"Games text file made ready, beside {version}",
            taken["whence"],
            taken[name],
            version,
            "s",
            floor=FASTER_THAN_PEERS,
            goal=FASTER_THAN_PEERS,
        )
