"""Growth with users and items: synthetic events of up to ten million users or a million items.

Every size has its own process, so that its memory can be measured. `python growth.py USERS ITEMS`
measures SASRec and ranking, `python growth.py cloze` measures BERT4Rec on a million items.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from measuring import Record, figures_in_turn, figures_of

if TYPE_CHECKING:
    from whence.data import Split

EVENTS = 10
"""Events per user."""
FEW_USERS, MANY_USERS = 10_000, 10_000_000
FEW_ITEMS, MANY_ITEMS = 10_000, 1_000_000
USERS, ITEMS = 100_000, 20_000
"""The fixed number while the other one grows."""
RANKED = 1_000
"""Users whose test event is ranked among all items."""
STEPS, WARM_UP = 60, 5
MAX_SLOWDOWN = 1.5
"""A step may take this much longer with a thousand times the users, which fit in no cache."""
MASKED = 0.6
"""BERT4Rec's mask_prob. Each masked item has a softmax over all items."""
BYTES_AN_ITEM = 64 * 4 * (4 + 3)
"""Weight, gradient and Adam's two moments in 64 dimensions. A checkpoint copies three of them."""


def measure() -> Iterator[Record]:
    """Yield the growth with users, then with items."""
    users = at_sizes([(FEW_USERS, ITEMS), (MANY_USERS, ITEMS)])
    few, many = users.values()
    yield Record(
        f"one training step with {MANY_USERS:,} users",
        many["step_milliseconds"],
        few["step_milliseconds"],
        f"{FEW_USERS:,} users",
        "ms",
        floor=1 / MAX_SLOWDOWN,
    )
    items = at_sizes([(USERS, FEW_ITEMS), (USERS, MANY_ITEMS)])
    few, many = items.values()
    grown = (many["training_gigabytes"] - few["training_gigabytes"]) * 1e9
    yield Record(
        f"training memory per additional item, up to {MANY_ITEMS:,} items",
        grown / (MANY_ITEMS - FEW_ITEMS),
        BYTES_AN_ITEM,
        "weight, gradient, Adam's moments and their copies in a checkpoint",
        "bytes",
        floor=1 / 2,
    )
    yield Record(
        f"memory of ranking {MANY_ITEMS:,} items, compared with training on them",
        many["ranking_gigabytes"],
        many["training_gigabytes"],
        "training",
        "GB",
        floor=1 / 1.25,
    )
    yield Record(
        f"ranking {MANY_ITEMS:,} items, per user and item",
        many["ranking_seconds"] / RANKED / MANY_ITEMS * 1e9,
        few["ranking_seconds"] / RANKED / FEW_ITEMS * 1e9,
        f"{FEW_ITEMS:,} items",
        "ns",
        floor=1 / 2,
    )


def measure_cloze() -> Iterator[Record]:
    """Yield the memory of BERT4Rec's softmax over a million items."""
    found = figures_in_turn(
        {"cloze": lambda: figures_of([sys.executable, Path(__file__).resolve(), "cloze"])}
    )["cloze"]
    yield Record(
        f"memory of training BERT4Rec on {MANY_ITEMS:,} items, in total",
        found["training_gigabytes"],
        2 * found["masks"] * MANY_ITEMS * 4 / 1e9,
        f"logits of {found['masks']:.0f} masks and their gradient alone",
        "GB",
    )


def at_sizes(sizes: list[tuple[int, int]]) -> dict[str, dict[str, float]]:
    """Return the figures of each size, from processes in turn."""
    script = Path(__file__).resolve()
    return figures_in_turn(
        {
            f"{users} {items}": (
                lambda users=users, items=items: figures_of([sys.executable, script, users, items])
            )
            for users, items in sizes
        }
    )


def random_split(users: int, items: int) -> Split:
    """Return random events, with the last two of each user held out."""
    from whence.data import Interactions, last_two
    from whence.data.catalog import Catalog

    rng = np.random.default_rng(0)
    data = Interactions(
        items=rng.integers(0, items, users * EVENTS, dtype=np.int32),
        offsets=np.arange(users + 1, dtype=np.int64) * EVENTS,
        catalog=Catalog(pa.table({"item": pa.array(np.arange(items))})),
        users=pa.table({"user": pa.array(np.arange(users))}),
        times=None,
        ratings=None,
    )
    return last_two(data)


def one_size(users: int, items: int) -> dict[str, float]:
    """Return milliseconds per step, seconds to rank, and the memory after each."""
    from whence.training import TrainingConfig
    from whence.training.ranks import full_ranks
    from whence.training.recommenders import new_training

    split = random_split(users, items)
    training = new_training(split, "sasrec", {"max_len": 25}, TrainingConfig(), [0], "cpu")
    for _ in range(WARM_UP):
        training.advance()
    start = time.perf_counter()
    for _ in range(STEPS):
        training.advance()
    step = (time.perf_counter() - start) / STEPS
    with tempfile.TemporaryDirectory() as folder:
        training.save(Path(folder) / "checkpoint")
    training_peak = peak_gigabytes()
    start = time.perf_counter()
    full_ranks(training.result()[0].model, split.held["test"][:RANKED], 25, items)
    return {
        "step_milliseconds": step * 1e3,
        "training_gigabytes": training_peak,
        "ranking_seconds": time.perf_counter() - start,
        "ranking_gigabytes": peak_gigabytes(),
    }


def cloze() -> dict[str, float]:
    """Return BERT4Rec's milliseconds per step, masks per step, and memory on a million items."""
    from whence.contract import PAD
    from whence.training import TrainingConfig
    from whence.training.recommenders import new_training

    sizes = {"max_len": 24, "mask_prob": MASKED}
    split = random_split(USERS, MANY_ITEMS)
    training = new_training(split, "bert4rec", sizes, TrainingConfig(), [0], "cpu")
    start = time.perf_counter()
    for _ in range(WARM_UP):
        training.advance()
    step = (time.perf_counter() - start) / WARM_UP
    positives = training.stack.batches.draw(training.stack.clock).positives
    return {
        "step_milliseconds": step * 1e3,
        "masks": int((positives != PAD).sum()),
        "training_gigabytes": peak_gigabytes(),
    }


def peak_gigabytes() -> float:
    """Return the highest resident memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    figures = cloze() if sys.argv[1] == "cloze" else one_size(int(sys.argv[1]), int(sys.argv[2]))
    print(json.dumps(figures))
