"""Seconds until Whence's SASRec ranks well enough: `python quality_whence.py TEXT LOSS NDCG SEED`.

As for RecTools, the time excludes the data, building the model and the validations.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import torch

import whence
from whence.data.splits import HeldOut
from whence.engine import Training
from whence.memory import reuse_freed_memory
from whence.models import Recommender
from whence.training import Evaluation, TrainingConfig
from whence.training.recommenders import new_training

THREADS = 1
METRIC = "NDCG@10"
MODEL = {
    "max_len": 50,
    "dim": 64,
    "n_blocks": 2,
    "n_heads": 1,
    "dropout": 0.2,
    "n_negatives": 256,
}
TRAINING = TrainingConfig(steps=20_000, batch_size=128, learning_rate=1e-3)
VALIDATE_EVERY = 100
"""Steps between validations."""


class Moment(NamedTuple):
    """A moment of a training at which its weights rank well enough."""

    seconds: float
    step: int
    value: float


def moments(
    training: Training[Recommender],
    wanted: Sequence[float],
    held: HeldOut,
    every: int,
    limit: float = float("inf"),
) -> list[Moment]:
    """Return the moments at which NDCG@10 first reaches each value, the lowest first.

    It is measured every few steps, outside of the clock. The list is shorter if the steps end
    first, or the seconds. On a processor they are its time, which other programs do not change.
    """
    on_gpu = training.task.device != "cpu"
    clock = time.perf_counter if on_gpu else time.process_time
    model = training.stack.models[0]
    evaluation = Evaluation(training.task.split, held, model.config.max_len)
    found: list[Moment] = []
    seconds = 0.0
    while len(found) < len(wanted) and seconds < limit and training.step < training.plan.steps:
        start = clock()
        for _ in range(every):
            training.advance()
        if on_gpu:
            torch.cuda.synchronize()
        seconds += clock() - start
        value = evaluation.mean(METRIC, training.result()[training.stack.seeds[0]].model)
        reached = [one for one in wanted[len(found) :] if value >= one]
        found += [Moment(seconds, training.step, value)] * len(reached)
    return found


def main() -> None:
    """Measure as the command line says and print the record."""
    text, loss, wanted, seed = *sys.argv[1:3], float(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(THREADS)
    reuse_freed_memory()
    split = whence.last_two(whence.load(text))
    training = new_training(split, "sasrec", {**MODEL, "loss": loss}, TRAINING, [seed], "cpu")
    found = moments(training, [wanted], "validation", VALIDATE_EVERY)
    if not found:
        raise RuntimeError(f"{METRIC} was below {wanted:.4f} after {TRAINING.steps} steps.")
    print(json.dumps(found[0]._asdict()))


if __name__ == "__main__":
    main()
