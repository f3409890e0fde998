"""Training DeepICF+a on MovieLens 1M beside RecBole's NAIS, each with two threads.

Width and attention 16, β .8, four negatives a positive, the last event of each user left out. NAIS
is measured as RecBole has it, every history padded to the longest of all, and with histories cut to
as many items as DeepICF+a reads; each way in the batches that are fastest. Each run is a process of
its own.
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
"""Of training, in every run."""
LONGEST = 299
USERS = 4
"""A step of ours."""
WAYS = {
    "as it comes, histories padded to the longest": (0, (32, 64, 128)),
    f"with histories cut to {LONGEST} items": (LONGEST, (128, 256, 512)),
}
"""How NAIS is trained: the most items of a history, and targets a step, of which it is given the
best; at RecBole's own 2,048 it has half the speed."""
GIGABYTES = 2.0
FASTER_THAN_PEER = 10.0


def measure() -> Iterator[Record]:
    """Both ways of the peer and ours in turn, where the data are found."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / f"{DATA}.txt"
        try:
            write_events(text)
        except InputError as problem:
            print(f"not measured: {problem}")
            return
        found = figures_in_turn(tasks(text))
    yield from beside(found)


def write_events(text: Path) -> None:
    """A line `user item` for every event, each user's in the order of time."""
    data = whence.load(DATA)
    users = np.repeat(np.arange(data.user_count), np.diff(data.offsets))
    np.savetxt(text, np.stack([users, data.items], axis=1), fmt="%d")


def tasks(text: Path) -> dict[str, Callable[[], dict[str, float]]]:
    """What is run, by name."""
    ours = [sys.executable, HERE / "whence_deepicf.py", text, SECONDS, USERS, LONGEST]
    peer = [python_of("recbole"), HERE / "recbole_nais.py", text, SECONDS]
    return {"whence": partial(figures_of, ours)} | {
        f"{way} {batch}": partial(figures_of, [*peer, batch, longest])
        for way, (longest, batches) in WAYS.items()
        for batch in batches
    }


def beside(found: dict[str, dict[str, float]]) -> Iterator[Record]:
    """Rates beside the best of either way, and the memory under its limit."""
    for way, (_, batches) in WAYS.items():
        yield Record(
            f"training DeepICF+a on MovieLens 1M, beside NAIS of RecBole 1.2.1 {way}",
            found["whence"]["targets_per_second"],
            max(found[f"{way} {batch}"]["targets_per_second"] for batch in batches),
            "RecBole 1.2.1",
            "targets/s",
            floor=FASTER_THAN_PEER,
            goal=FASTER_THAN_PEER,
            more_is_better=True,
        )
    yield Record(
        "memory of training DeepICF+a on MovieLens 1M",
        found["whence"]["peak_gigabytes"],
        GIGABYTES,
        "limit",
        "GB",
    )
