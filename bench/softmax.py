"""The softmax over all items compared with a sampled one, on synthetic catalogs of growing size.

The model has dim 64, two blocks and max_len 50; a batch has 128 users of ten events each. Memory is
what training adds to the data. The smallest that it can be is the weights, their gradient and
Adam's moments. The softmax over all items may add one chunk of logits, whatever the catalog, and
the gaps between blocks of memory.

On a processor every size has its own process, so that its memory can be measured:
`python softmax.py LOSS ITEMS`.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import torch

from growth import USERS, peak_gigabytes, random_split
from measuring import Record, figures_in_turn, figures_of
from whence.engine import Training
from whence.memory import reuse_freed_memory
from whence.models import Recommender
from whence.models.losses import AT_ONCE, AT_ONCE_ON_GPU
from whence.training import TrainingConfig
from whence.training.recommenders import new_training

FULL, SAMPLED = "softmax", "sampled-softmax"
NEGATIVES = 512
MODEL = {"max_len": 50, "dim": 64, "n_blocks": 2, "dropout": 0.2, "n_negatives": NEGATIVES}
BATCH = 128
THREADS = 2
ITEMS, ITEMS_ON_GPU = (10_000, 100_000), (10_000, 100_000, 1_000_000)
STEPS = {"cpu": 15, "cuda": 200}
WARM_UP = 3
NUMBER = 4
"""Bytes of a float32."""
COPIES = 4
"""Numbers per weight: itself, its gradient and Adam's two moments."""


def measure() -> Iterator[Record]:
    """Yield the figures on the CPU."""
    script = Path(__file__).resolve()

    def process(loss: str, items: int) -> dict[str, float]:
        return figures_of([sys.executable, script, loss, items])

    yield from records(ITEMS, process, AT_ONCE, "on 2 CPU cores")


def measure_on_gpu() -> Iterator[Record]:
    """Yield the figures on a GPU, if there is one."""
    if not torch.cuda.is_available():
        print("Skipped: this machine has no GPU.")
        return
    yield from records(ITEMS_ON_GPU, partial(one_size, device="cuda"), AT_ONCE_ON_GPU, "on a GPU")


def records(
    sizes: tuple[int, ...],
    figures: Callable[[str, int], Mapping[str, float]],
    at_once: int,
    where: str,
) -> Iterator[Record]:
    """Yield the rates at all sizes, and the memory at the largest."""
    found = figures_in_turn(
        {
            f"{loss} {items}": partial(figures, loss, items)
            for items in sizes
            for loss in (FULL, SAMPLED)
        }
    )
    for items in sizes:
        full, sampled = (found[f"{loss} {items}"] for loss in (FULL, SAMPLED))
        yield Record(
            f"training with the softmax over all of {items:,} items {where}",
            full["sequences_per_second"],
            sampled["sequences_per_second"],
            f"a softmax over {NEGATIVES} sampled items",
            "sequences/s",
            floor=0.0,
            goal=0.0,
            more_is_better=True,
        )
        yield Record(
            f"memory of the softmax over all of {items:,} items {where}",
            full["gigabytes"],
            full["table_gigabytes"],
            "the weights, their gradient and Adam's moments",
            "GB",
            floor=0.0,
            goal=0.0,
        )
    chunk = min(at_once, full["rows"] * items) * NUMBER / 1e9
    yield Record(
        f"memory of the softmax over all of {items:,} items {where}, with its chunk of logits",
        full["gigabytes"],
        full["table_gigabytes"] + chunk,
        "the same and one chunk of logits",
        "GB",
        floor=1 / 3,
    )


def one_size(
    loss: str, items: int, device: str, users: int = USERS, steps: int | None = None
) -> dict[str, float]:
    """Return the rate of training, its memory, the size of its tables, and the rows of a batch."""
    split = random_split(users, items)
    before = start_memory(device)
    config = TrainingConfig(batch_size=BATCH)
    training = new_training(split, "sasrec", MODEL | {"loss": loss}, config, [0], device)
    run(training, WARM_UP)
    steps = steps or STEPS[device]
    seconds = run(training, steps)
    weights = sum(weight.numel() for weight in training.stack.weights.values())
    return {
        "sequences_per_second": steps * BATCH / seconds,
        "gigabytes": peak_memory(device) - before,
        "table_gigabytes": COPIES * weights * NUMBER / 1e9,
        "rows": len(training.stack.batches.draw(training.stack.clock).positives),
    }


def run(training: Training[Recommender], steps: int) -> float:
    """Take some steps and return their seconds."""
    start = time.perf_counter()
    for _ in range(steps):
        training.advance()
    training.read_losses()  # which waits for a GPU
    return time.perf_counter() - start


def start_memory(device: str) -> float:
    """Return the gigabytes in use, and start to look for the peak."""
    if device == "cpu":
        return peak_gigabytes()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated() / 1e9


def peak_memory(device: str) -> float:
    """Return the largest number of gigabytes in use so far."""
    return peak_gigabytes() if device == "cpu" else torch.cuda.max_memory_allocated() / 1e9


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    reuse_freed_memory()
    print(json.dumps(one_size(sys.argv[1], int(sys.argv[2]), "cpu")))
