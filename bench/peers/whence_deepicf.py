"""Measure how fast Whence trains DeepICF+a: `python whence_deepicf.py TEXT SECONDS USERS LONGEST`.

The text, the time and the targets are defined as in `recbole_nais.py`. A step has USERS users with
their events, up to LONGEST, and four negatives per event.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import replace

import torch

import whence
from whence.data import Split
from whence.engine import Training
from whence.memory import reuse_freed_memory
from whence.models import Recommender
from whence.models.tasks import NO_QUESTION
from whence.training import TrainingConfig
from whence.training.recommenders import new_training

DIM, BETA, NEGATIVES = 16, 0.8, 4
THREADS = 2
WARM_UP = 3


def without_the_last(text: str) -> Split:
    """Return a split that trains on everything but the last event of each user."""
    split = whence.last_two(whence.load(text))
    return replace(split, train_ends=split.interactions.offsets[1:] - 1)


def measure(text: str, seconds: float, users: int, longest: int) -> dict[str, float]:
    """Return the rate of the training loop, and the peak memory."""
    split = without_the_last(text)
    sizes = {
        "max_len": longest,
        "dim": DIM,
        "attention_dim": DIM,
        "beta": BETA,
        "n_negatives": NEGATIVES,
        "n_classes": 1,
    }
    config = TrainingConfig(batch_size=users, optimizer="adagrad", learning_rate=0.01)
    training = new_training(split, "deepicf-a", sizes, config, [0], "cpu")
    for _ in range(WARM_UP):
        training.advance()
    start = time.perf_counter()
    while (taken := time.perf_counter() - start) < seconds:
        training.advance()
    return {
        "targets_per_second": count_targets(training) / taken,
        "steps": training.step - WARM_UP,
        "events": int(split.trained().sum()),
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def count_targets(training: Training[Recommender]) -> int:
    """Count the targets after the warm-up, on the same batches."""
    batches, targets = training.stack.batches, 0
    for step in range(WARM_UP, training.step):
        batches.prepare(step)
        targets += int((batches.draw(torch.tensor(step)).outcomes != NO_QUESTION).sum())
    return targets


def main() -> None:
    """Measure on the file named on the command line and print the record."""
    text, seconds, users, longest = sys.argv[1:]
    torch.set_num_threads(THREADS)
    reuse_freed_memory()
    print(json.dumps(measure(text, float(seconds), int(users), int(longest))))


if __name__ == "__main__":
    main()
