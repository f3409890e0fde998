"""Training DeepICF+a on MovieLens 1M compared with RecBole's NAIS, each with two threads.

dim and attention_dim 16, β 0.8, four negatives per positive, without the last event of each user.
NAIS is measured with RecBole's defaults, which pad every history to the longest. It is also
measured with histories cut to as many items as DeepICF+a reads. Both use the batch size that is
fastest for them. Each run has its own process.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

import whence
from measuring import Record, figures_in_turn, figures_of
from peers.environment import HERE, python_of
from whence.errors import InputError

DATA = "ml-1m"
SECONDS = 20
"""Training time of every run."""
LONGEST = 299
USERS = 4
"""Users per step of DeepICF+a."""
WAYS = {
    "with its defaults, histories padded to the longest": (0, (32, 64, 128)),
    f"with histories cut to {LONGEST} items": (LONGEST, (128, 256, 512)),
}
"""Longest history of NAIS (0 for no limit), and the batch sizes to try. The best one counts. With
RecBole's default of 2,048, NAIS has half the speed."""
GIGABYTES = 2.0
FASTER_THAN_PEER = 10.0


def measure() -> Iterator[Record]:
    """Measure NAIS in both ways and DeepICF+a in turn, if the data are available."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / f"{DATA}.txt"
        try:
            write_events(text)
        except InputError as problem:
            print(f"Skipped: {problem}")
            return
        figures = figures_in_turn(tasks(text))
    yield from compare(figures)


def write_events(text: Path) -> None:
    """Write a line `user item` for every event, in order of time for each user."""
    data = whence.load(DATA)
    users = np.repeat(np.arange(data.user_count), np.diff(data.offsets))
    np.savetxt(text, np.stack([users, data.items], axis=1), fmt="%d")


def tasks(text: Path) -> dict[str, Callable[[], dict[str, float]]]:
    """Return what to run, by name."""
    ours = [sys.executable, HERE / "whence_deepicf.py", text, SECONDS, USERS, LONGEST]
    peer = [python_of("recbole"), HERE / "recbole_nais.py", text, SECONDS]
    return {"whence": partial(figures_of, ours)} | {
        f"{way} {batch}": partial(figures_of, [*peer, batch, longest])
        for way, (longest, batches) in WAYS.items()
        for batch in batches
    }


def compare(figures: dict[str, dict[str, float]]) -> Iterator[Record]:
    """Yield our rate compared with the best of each way, and our memory with its limit."""
    for way, (_, batches) in WAYS.items():
        yield Record(
            f"training DeepICF+a on MovieLens 1M, compared with NAIS of RecBole 1.2.1 {way}",
            figures["whence"]["targets_per_second"],
            max(figures[f"{way} {batch}"]["targets_per_second"] for batch in batches),
            "RecBole 1.2.1",
            "targets/s",
            floor=FASTER_THAN_PEER,
            goal=FASTER_THAN_PEER,
            more_is_better=True,
        )
    yield Record(
        "memory of training DeepICF+a on MovieLens 1M",
        figures["whence"]["peak_gigabytes"],
        GIGABYTES,
        "limit",
        "GB",
    )
