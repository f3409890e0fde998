"""Measure how fast Whence trains SASRec and ranks: `python train_whence.py TEXT SECONDS [MODEL]`.

With `bert4rec`, it trains BERT4Rec with its full softmax at a mask probability of 0.2, and does not
rank.

As for the peers, the time excludes the data, building the model and the first steps. The sampled
protocol includes drawing the hundred items, as RecBole's does.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import torch

import whence
from whence.data import Split
from whence.engine import Training
from whence.memory import reuse_freed_memory
from whence.models import Recommender
from whence.training import Evaluation, TrainingConfig
from whence.training.recommenders import new_training

MAX_LEN, DIM, BATCH = 25, 64, 128
THREADS = 2
WARM_UP = 20


def measure(text: str, seconds: float) -> dict[str, float]:
    """Return the rates of the training loop, and the seconds of both protocols."""
    split = whence.last_two(whence.load(text))
    training, taken = train_for(split, "sasrec", {"max_len": MAX_LEN}, seconds)
    model = training.result()[0].model
    steps = training.step - WARM_UP
    # Count afterwards, on the same batches.
    drawn = (training.stack.batches.draw(torch.tensor(step)) for step in range(steps))
    targets = sum(int(batch.inputs.real.sum()) for batch in drawn)
    evaluation = Evaluation(split, "test", MAX_LEN)
    start = time.perf_counter()
    evaluation.full(model).measures()
    full = time.perf_counter() - start
    start = time.perf_counter()
    evaluation.sampled(model).measures()
    sampled = time.perf_counter() - start
    return {
        "sequences_per_second": steps * BATCH / taken,
        "targets_per_second": targets / taken,
        "evaluation_seconds": full,
        "sampled_seconds": sampled,
        "evaluated_users": len(split.held["test"]),
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def measure_bert4rec(text: str, seconds: float) -> dict[str, float]:
    """Return the rate of the training loop, with as many slots as RecBole's BERT4Rec."""
    split = whence.last_two(whence.load(text))
    settings = {"max_len": MAX_LEN - 1, "mask_prob": 0.2}
    training, taken = train_for(split, "bert4rec", settings, seconds)
    return {"sequences_per_second": (training.step - WARM_UP) * BATCH / taken}


def train_for(
    split: Split, name: str, settings: dict[str, float], seconds: float
) -> tuple[Training[Recommender], float]:
    """Train for this time after a warm-up. Return the training and its exact seconds."""
    sizes = {"dim": DIM, "n_blocks": 2, "n_heads": 1, "dropout": 0.2, **settings}
    training = new_training(split, name, sizes, TrainingConfig(batch_size=BATCH), [0], "cpu")
    for _ in range(WARM_UP):
        training.advance()
    start = time.perf_counter()
    while (taken := time.perf_counter() - start) < seconds:
        training.advance()
    return training, taken


def main() -> None:
    """Measure on the file named on the command line and print the record."""
    torch.set_num_threads(THREADS)
    reuse_freed_memory()
    task = measure_bert4rec if sys.argv[3:] == ["bert4rec"] else measure
    print(json.dumps(task(sys.argv[1], float(sys.argv[2]))))


if __name__ == "__main__":
    main()
