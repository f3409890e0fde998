"""Training and evaluation of SASRec on Amazon Games compared with peers, with two threads each.

The model has dim 64, two blocks, one head, max_len 25, batch size 128, one negative per position
and binary cross-entropy. RecBole does not offer that loss, so it uses BPR. Each run has its own
process.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from data import games_file
from measuring import Record, figures_in_turn, figures_of
from peers.environment import HERE, python_of

SECONDS = 20
"""Training time of every run."""
DEFAULTS = {
    "rectools": "RecTools 0.19.0",
    "recbole": "RecBole 1.2.1 with its defaults (BPR, one target per row, anomaly detection)",
}
VERSIONS = {"rectools": "RecTools 0.19.0", "recbole": "RecBole 1.2.1"}


def measure() -> Iterator[Record]:
    """Yield all figures compared with each peer's. RecBole's two modes have the same floor."""
    with tempfile.TemporaryDirectory() as folder:
        games = games_file(Path(folder))
        if games is None:
            print("Skipped the peers. Set WHENCE_DATA to a folder with the Games file.")
            return
        pythons = {name: python_of(name) for name in VERSIONS} | {"whence": Path(sys.executable)}
        tasks = {
            name: (lambda name=name: figures_of([pythons[name], script(name), games, SECONDS]))
            for name in pythons
        }
        for mode in ("unwatched", "sampled"):
            tasks[f"recbole {mode}"] = lambda mode=mode: figures_of(
                [pythons["recbole"], script("recbole"), games, SECONDS, mode]
            )
        figures = figures_in_turn(tasks)
    yield from compare(figures)


def script(name: str) -> Path:
    """Return the script that measures a library in its own environment."""
    return HERE / f"train_{name}.py"


def compare(figures: dict[str, dict[str, float]]) -> Iterator[Record]:
    """Yield our figures compared with theirs, with floors and goals."""
    ours, rectools, recbole = figures["whence"], figures["rectools"], figures["recbole"]

    def rate(figure: str, unit: str, peer: str, floor: float, goal: float) -> Record:
        name = f"training {unit}, compared with {DEFAULTS[peer]}"
        theirs = figures[peer][figure]
        return Record(name, ours[figure], theirs, VERSIONS[peer], unit, floor, goal, True)

    yield rate("sequences_per_second", "sequences/s", "rectools", 4.5, 8.0)
    yield rate("targets_per_second", "targets/s", "recbole", 30.0, 30.0)
    yield Record(
        "training targets/s, compared with RecBole 1.2.1 without anomaly detection",
        ours["targets_per_second"],
        figures["recbole unwatched"]["targets_per_second"],
        "RecBole 1.2.1",
        "targets/s",
        floor=30.0,
        goal=30.0,
        more_is_better=True,
    )
    for peer, version in VERSIONS.items():
        yield Record(
            f"peak memory of training and evaluation, compared with {version}",
            ours["peak_gigabytes"],
            figures[peer]["peak_gigabytes"],
            version,
            "GB",
        )
    faster = min((rectools, recbole), key=lambda one: one["evaluation_seconds"])
    for peer, version in VERSIONS.items():
        yield Record(
            f"full ranking of {ours['evaluated_users']:,.0f} users, compared with {version}",
            ours["evaluation_seconds"],
            figures[peer]["evaluation_seconds"],
            version,
            "s",
            floor=2.0 if figures[peer] is faster else 1.0,
            goal=3.0 if figures[peer] is faster else 1.0,
        )
    yield Record(
        "ranking among a hundred random items, compared with RecBole 1.2.1",
        ours["sampled_seconds"],
        figures["recbole sampled"]["sampled_seconds"],
        f"RecBole 1.2.1 (scaled from {figures['recbole sampled']['scaled_from']:,.0f} users)",
        "s",
        floor=100.0,
        goal=100.0,
    )
