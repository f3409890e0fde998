"""Time to quality on one GPU: seconds until one SASRec ranks the test events of ML-1M well.

The clock includes everything but building the model: recording the step, the validations that a
user would stop by, and the steps. The test events are ranked outside of it, with the weights of
each validation. They train and choose nothing, but they stop the clock: it is the first of repeated
looks at them. The data are the 3,416 films of SASRec's authors.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

import torch

from measuring import RUNS, Record
from peers.quality_whence import METRIC, Moment, moments
from whence.data import Split, last_two, load
from whence.errors import InputError
from whence.training import TrainingConfig
from whence.training.recommenders import new_training

DATA = "ml-1m-sasrec"
LEVELS = ((0.177, 30.0, 15.0), (0.186, 120.0, 120.0))
"""Test NDCG@10, the limit in seconds to reach it, and the goal."""
MOST_SECONDS = 70.0
"""Where a training ends that does not reach them."""
MODEL = {
    "max_len": 200,
    "dim": 128,
    "n_blocks": 2,
    "n_heads": 2,
    "dropout": 0.2,
    "loss": "softmax",
}
"""What the default recipe chooses for these data on a GPU, like the training."""
VALIDATE_EVERY = 400
TRAINING = TrainingConfig(
    steps=8_000,
    batch_size=128,
    learning_rate=2e-3,
    warmup=100,
    lr_decay="cosine",
    validate_every=VALIDATE_EVERY,
    precision="bfloat16",
)


def measure() -> Iterator[Record]:
    """Yield the seconds to each level, if there is a GPU and the data are available."""
    if not torch.cuda.is_available():
        print("Skipped: this machine has no GPU.")
        return
    try:
        split = last_two(load(DATA))
    except InputError as problem:
        print(f"Skipped: {problem}")
        return
    wanted = [level for level, _, _ in LEVELS]
    runs = [reached(split, wanted, seed) for seed in range(RUNS)]
    for number, (level, limit, goal) in enumerate(LEVELS):
        seconds = statistics.median(
            run[number].seconds if number < len(run) else float("inf") for run in runs
        )
        if math.isinf(seconds):
            raise RuntimeError(f"The test {METRIC} was below {level} after {MOST_SECONDS:g} s.")
        yield Record(
            f"training on ML-1M (3,416 films) until the test {METRIC} is first {level} on a GPU",
            seconds,
            limit,
            "limit",
            "s",
            goal=limit / goal,
        )


def reached(
    split: Split,
    wanted: list[float],
    seed: int,
    device: str = "cuda",
    config: TrainingConfig = TRAINING,
    limit: float = MOST_SECONDS,
) -> list[Moment]:
    """Train a seed until it reaches all levels."""
    training = new_training(split, "sasrec", MODEL, config, [seed], device)
    found = moments(training, wanted, "test", config.validate_every, limit)
    for one in found:
        print(f"seed {seed}: {METRIC} {one.value:.4f} after {one.step} steps, {one.seconds:.1f} s")
    return found
