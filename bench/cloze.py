"""Training BERT4Rec with its full softmax: beside RecBole on Amazon Games, and on a million items.

Width 64, two blocks, one head, 25 slots, batches of 128, mask probability .2, two threads. Each run
is a process of its own.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import growth
from data import games_file
from measuring import Record, figures_in_turn, figures_of
from peers.environment import python_of
from training import SECONDS, script

MODES = {
    "bert4rec": "RecBole 1.2.1 as it comes",
    "bert4rec-unwatched": "RecBole 1.2.1 with its anomaly search turned off",
}


def measure() -> Iterator[Record]:
    """Sequences a second, then memory."""
    with tempfile.TemporaryDirectory() as folder:
        games = games_file(Path(folder))
        if games is None:
            print("no training beside peers: WHENCE_DATA names no folder with the Games file")
        else:
            yield from beside_recbole(games)
    yield from growth.of_cloze()


def beside_recbole(games: Path) -> Iterator[Record]:
    """Its training in both modes, ours in between."""
    recbole = [python_of("recbole"), script("recbole"), games, SECONDS]
    whence = [sys.executable, script("whence"), games, SECONDS, "bert4rec"]
    tasks: dict[str, Callable[[], dict[str, float]]] = {
        mode: partial(figures_of, [*recbole, mode]) for mode in MODES
    }
    tasks["whence"] = partial(figures_of, whence)
    found = figures_in_turn(tasks)
    for mode, words in MODES.items():
        yield Record(
            f"training BERT4Rec with a full softmax, mask .2, beside {words}",
            found["whence"]["sequences_per_second"],
            found[mode]["sequences_per_second"],
            "RecBole 1.2.1",
            "sequences/s",
            floor=5.0,
            goal=10.0,
            more_is_better=True,
        )
