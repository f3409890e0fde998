"""Training and evaluation of SASRec on Amazon Games beside the peers, each with two threads.

Width 64, two blocks, one head, length 25, batches of 128, one negative a position, binary
cross-entropy (RecBole: BPR, its nearest). Each run is a process of its own.
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
"""Of training, in every run."""
AS_IT_COMES = {
    "rectools": "RecTools 0.19.0",
    "recbole": "RecBole 1.2.1 as it comes (BPR, one target a row, anomaly search on)",
}
VERSIONS = {"rectools": "RecTools 0.19.0", "recbole": "RecBole 1.2.1"}


def measure() -> Iterator[Record]:
    """All figures beside every peer's, RecBole's training in both modes under the same floor."""
    with tempfile.TemporaryDirectory() as folder:
        games = games_file(Path(folder))
        if games is None:
            print("no training beside peers: WHENCE_DATA names no folder with the Games file")
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
        found = figures_in_turn(tasks)
    yield from beside(found)


def script(name: str) -> Path:
    """What measures a library, in its own environment."""
    return HERE / f"train_{name}.py"


def beside(found: dict[str, dict[str, float]]) -> Iterator[Record]:
    """Ours beside theirs, with the floors and goals where there are some."""
    ours, rectools, recbole = found["whence"], found["rectools"], found["recbole"]

    def rate(figure: str, unit: str, peer: str, floor: float, goal: float) -> Record:
        name = f"training {unit}, beside {AS_IT_COMES[peer]}"
        theirs = found[peer][figure]
        return Record(name, ours[figure], theirs, VERSIONS[peer], unit, floor, goal, True)

    yield rate("sequences_per_second", "sequences/s", "rectools", 4.5, 8.0)
    yield rate("targets_per_second", "targets/s", "recbole", 30.0, 30.0)
    yield Record(
        "training targets/s, beside RecBole 1.2.1 with its anomaly search turned off",
        ours["targets_per_second"],
        found["recbole unwatched"]["targets_per_second"],
        "RecBole 1.2.1",
        "targets/s",
        floor=30.0,
        goal=30.0,
        more_is_better=True,
    )
    for peer, version in VERSIONS.items():
        yield Record(
            f"peak memory of training and evaluation, beside {version}",
            ours["peak_gigabytes"],
            found[peer]["peak_gigabytes"],
            version,
            "GB",
        )
    faster = min((rectools, recbole), key=lambda one: one["evaluation_seconds"])
    for peer, version in VERSIONS.items():
        yield Record(
            f"full ranking of {ours['evaluated_users']:,.0f} users, beside {version}",
            ours["evaluation_seconds"],
            found[peer]["evaluation_seconds"],
            version,
            "s",
            floor=2.0 if found[peer] is faster else 1.0,
            goal=3.0 if found[peer] is faster else 1.0,
        )
    yield Record(
        "ranking among a hundred random items, beside RecBole 1.2.1",
        ours["sampled_seconds"],
        found["recbole sampled"]["sampled_seconds"],
        f"RecBole 1.2.1 (scaled from {found['recbole sampled']['scaled_from']:,.0f} users)",
        "s",
        floor=100.0,
        goal=100.0,
    )
