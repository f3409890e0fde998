"""Training BERT4Rec with its full softmax: RecBole on Amazon Games, and a million items.

dim 64, two blocks, one head, 25 slots, batch size 128, mask probability 0.2, two threads. Each run
has its own process.
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
    "bert4rec": "RecBole 1.2.1 with its defaults",
    "bert4rec-unwatched": "RecBole 1.2.1 without anomaly detection",
}


def measure() -> Iterator[Record]:
    """Yield the rate compared with RecBole's, then the memory with a million items."""
    with tempfile.TemporaryDirectory() as folder:
        games = games_file(Path(folder))
        if games is None:
            print("Skipped RecBole. Set WHENCE_DATA to a folder with the Games file.")
        else:
            yield from compare_with_recbole(games)
    yield from growth.measure_cloze()


def compare_with_recbole(games: Path) -> Iterator[Record]:
    """Yield our rate compared with RecBole's in both modes, measured in turn."""
    recbole = [python_of("recbole"), script("recbole"), games, SECONDS]
    whence = [sys.executable, script("whence"), games, SECONDS, "bert4rec"]
    tasks: dict[str, Callable[[], dict[str, float]]] = {
        mode: partial(figures_of, [*recbole, mode]) for mode in MODES
    }
    tasks["whence"] = partial(figures_of, whence)
    figures = figures_in_turn(tasks)
    for mode, peer in MODES.items():
        yield Record(
            f"training BERT4Rec with a full softmax, mask_prob 0.2, compared with {peer}",
            figures["whence"]["sequences_per_second"],
            figures[mode]["sequences_per_second"],
            "RecBole 1.2.1",
            "sequences/s",
            floor=5.0,
            goal=10.0,
            more_is_better=True,
        )
