"""Measure how fast RecTools trains SASRec and recommends: `python train_rectools.py TEXT SECONDS`.

In RecTools' favour, the time excludes the data, building the model and the first steps. Lightning's
progress bar, log and checkpoints are off. Evaluation is the top ten items for each user, without
metrics. Against RecTools, evaluation includes making sessions from the histories, and its attention
has dropout. Its catalog lacks items that occur only in held-out events.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
import warnings
from pathlib import Path

import pandas as pd
import torch
from prepare_rectools import read_interactions
from pytorch_lightning import Callback, LightningModule, Trainer
from rectools import Columns
from rectools.dataset import Dataset
from rectools.models import SASRecModel

MAX_LEN, DIM, BATCH = 25, 64, 128
THREADS = 2
WARM_UP = 20
SHORTEST_HELD_OUT = 3
"""The fewest events of a user with a held-out test event and validation event."""


class Clock(Callback):
    """Count sequences and targets after the warm-up, and stop at the time limit."""

    def __init__(self, seconds: float) -> None:
        self.limit = seconds
        self.steps = self.sequences = self.targets = 0
        self.start = self.seconds = 0.0

    def on_train_batch_end(
        self,
        trainer: Trainer,
        module: LightningModule,
        outputs: object,
        batch: dict[str, torch.Tensor],
        batch_idx: int,
    ) -> None:
        """Count one batch. Padding targets are 0."""
        self.steps += 1
        if self.steps <= WARM_UP:
            self.start = time.perf_counter()
            return
        self.sequences += len(batch["y"])
        self.targets += int(torch.count_nonzero(batch["y"]))
        self.seconds = time.perf_counter() - self.start
        trainer.should_stop = self.seconds >= self.limit


def quiet_trainer(seconds: float) -> Trainer:
    """Return RecTools' trainer with a time limit."""
    return Trainer(
        min_epochs=0,
        max_epochs=-1,
        accelerator="cpu",
        devices=1,
        callbacks=[Clock(seconds)],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        logger=False,
    )


def hold_out(table: pd.DataFrame) -> tuple[Dataset, Dataset, pd.Series]:
    """Return the events to fit on and to recommend from, and the users with a test event."""
    events = table.groupby(Columns.User)
    from_the_end = events.cumcount(ascending=False)
    is_long = events[Columns.Item].transform("size") >= SHORTEST_HELD_OUT
    fitted = table[~is_long | (from_the_end >= 2)]
    history = table[~is_long | (from_the_end >= 1)]
    users = table.loc[is_long, Columns.User].drop_duplicates()
    return Dataset.construct(fitted), Dataset.construct(history), users


def measure(text: Path, seconds: float) -> dict[str, float]:
    """Return the rates of RecTools' fit, and the seconds it takes to recommend."""
    fitted, history, users = hold_out(read_interactions(text))
    model = SASRecModel(
        n_blocks=2,
        n_heads=1,
        n_factors=DIM,
        dropout_rate=0.2,
        session_max_len=MAX_LEN,
        loss="BCE",
        n_negatives=1,
        lr=1e-3,
        batch_size=BATCH,
        get_trainer_func=quiet_trainer,
        get_trainer_func_kwargs={"seconds": seconds},
    )
    model.fit(fitted)
    # `fit` trains with a copy of the trainer, and so of the clock.
    clock = next(one for one in model.fit_trainer.callbacks if isinstance(one, Clock))
    start = time.perf_counter()
    recommended = model.recommend(
        users, history, k=10, filter_viewed=True, on_unsupported_targets="ignore"
    )
    evaluation = time.perf_counter() - start
    return {
        "sequences_per_second": clock.sequences / clock.seconds,
        "targets_per_second": clock.targets / clock.seconds,
        "evaluation_seconds": evaluation,
        "evaluated_users": recommended[Columns.User].nunique(),
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def main() -> None:
    """Measure on the file named on the command line and print the record."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(THREADS)
    print(json.dumps(measure(Path(sys.argv[1]), float(sys.argv[2]))))


if __name__ == "__main__":
    main()
