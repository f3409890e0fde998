"""How fast Whence trains SASRec and ranks the test events; `python train_whence.py TEXT SECONDS`.

The clocks start and stop where the peers' do: the data, the making of the model and the first steps
are before them. The sampled protocol counts the drawing of the hundred items, as RecBole's does.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import torch

import whence
from whence.training import Evaluation, TrainingConfig
from whence.training.loop import Training

LENGTH, WIDTH, BATCH = 25, 64, 128
THREADS = 2
WARM_UP = 20


def measure(text: str, seconds: float) -> dict[str, float]:
    """The rates of the training loop, and the seconds of both protocols."""
    split = whence.leave_one_out(whence.load(text))
    sizes = {"length": LENGTH, "width": WIDTH, "blocks": 2, "heads": 1, "dropout": 0.2}
    training = Training(split, "sasrec", sizes, TrainingConfig(batch=BATCH), [0], "cpu")
    for _ in range(WARM_UP):
        training.advance()
    start = time.perf_counter()
    while (taken := time.perf_counter() - start) < seconds:
        training.advance()
    model = training.result()[0].model
    steps = training.step - WARM_UP
    # Counted afterwards, on the same batches.
    drawn = (training.stack.batches.draw(torch.tensor(step)) for step in range(steps))
    targets = sum(int(batch.inputs.real.sum()) for batch in drawn)
    evaluation = Evaluation(split, "test", LENGTH)
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


def main() -> None:
    """Measure on the file named on the command line and print the record."""
    torch.set_num_threads(THREADS)
    print(json.dumps(measure(sys.argv[1], float(sys.argv[2]))))


if __name__ == "__main__":
    main()
