"""Measure how fast RecBole trains SASRec and ranks: `python train_recbole.py TEXT SECONDS [MODE]`.

The mode `sampled` measures RecBole's ranking among a hundred sampled items instead of training.
`unwatched` trains without PyTorch's anomaly detection, which RecBole turns on for all its users and
which takes much of the time. `bert4rec` and `bert4rec-unwatched` train BERT4Rec with its full
softmax at a mask probability of 0.2.

RecBole trains on one target per row: a history and the item that came next. It offers SASRec no
binary cross-entropy, so it uses BPR with one uniform negative. In RecBole's favour, the time
excludes the data and the first steps, its attention has no dropout, and its feed-forward layers
have SASRec's dim instead of four times that. Evaluation uses RecBole's default batch size and, by
default, may recommend seen items, which saves it a filter.
"""

from __future__ import annotations

import contextlib
import json
import logging
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from clocked import Clocked
from prepare_recbole import DATASET, settings, write_atomic_file
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.data.dataloader import AbstractDataLoader
from recbole.model.sequential_recommender import BERT4Rec, SASRec
from recbole.trainer import Trainer

MAX_LEN, DIM, BATCH = 25, 64, 128
THREADS = 2
LONGEST_SAMPLED = 60.0
"""Seconds after which the sampled evaluation stops and is extrapolated."""


class Curtailed:
    """Batches of an evaluation loader until a time limit."""

    def __init__(self, loader: AbstractDataLoader, seconds: float) -> None:
        self.loader = loader
        self.limit = seconds
        self.users = 0
        # RecBole's `evaluate` gets the number of items from this attribute.
        self._dataset = loader._dataset

    def __iter__(self) -> Iterator[Any]:
        start = time.perf_counter()
        for batch in self.loader:
            yield batch
            self.users += len(batch[-1])
            if time.perf_counter() - start >= self.limit:
                return


SASREC_SETTINGS = {
    "loss_type": "BPR",
    "train_neg_sample_args": {"distribution": "uniform", "sample_num": 1},
}
BERT4REC_SETTINGS = {
    "loss_type": "CE",
    "train_neg_sample_args": None,
    "mask_ratio": 0.2,
    "transform": "mask_itemseq",
    "ft_ratio": 0.0,
    "hidden_act": "gelu",
}


def prepare(
    folder: Path, mode: str, model: type[SASRec | BERT4Rec] = SASRec
) -> tuple[Trainer, AbstractDataLoader, AbstractDataLoader]:
    """Return a trainer with an untrained model, and the loaders of training and test events."""
    ours = {
        "MAX_ITEM_LIST_LENGTH": MAX_LEN,
        "hidden_size": DIM,
        "inner_size": DIM,
        "n_layers": 2,
        "n_heads": 1,
        "hidden_dropout_prob": 0.2,
        "attn_dropout_prob": 0.0,
        "train_batch_size": BATCH,
        "learning_rate": 1e-3,
        "eval_args": {"split": {"LS": "valid_and_test"}, "order": "TO", "mode": mode},
        "metrics": ["Recall", "NDCG"],
        "topk": [10],
        "valid_metric": "NDCG@10",
    }
    ours |= SASREC_SETTINGS if model is SASRec else BERT4REC_SETTINGS
    config = Config(model=model.__name__, dataset=DATASET, config_dict=settings(folder) | ours)
    dataset = create_dataset(config)
    train, _, test = data_preparation(config, dataset)
    trainer = Trainer(config, model(config, train.dataset))
    # Close it before the folder it writes to is removed.
    trainer.tensorboard.close()
    return trainer, train, test


def train_and_rank(folder: Path, seconds: float) -> dict[str, float]:
    """Return the rates of RecBole's epoch loop, and the seconds of its full ranking."""
    trainer, train, test = prepare(folder, "full")
    clocked = Clocked(train, seconds)
    trainer._train_epoch(clocked, 0)
    start = time.perf_counter()
    trainer.evaluate(test, load_best_model=False)
    evaluation = time.perf_counter() - start
    return {
        "sequences_per_second": clocked.rows / clocked.seconds,
        "targets_per_second": clocked.rows / clocked.seconds,
        "evaluation_seconds": evaluation,
        "evaluated_users": test.sample_size,
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def train_bert4rec(folder: Path, seconds: float) -> dict[str, float]:
    """Return the rate of RecBole's epoch loop."""
    trainer, train, _ = prepare(folder, "full", BERT4Rec)
    clocked = Clocked(train, seconds)
    trainer._train_epoch(clocked, 0)
    return {"sequences_per_second": clocked.rows / clocked.seconds}


def rank_sampled(folder: Path) -> dict[str, float]:
    """Return the seconds of ranking among a hundred items, extrapolated to all users."""
    trainer, _, test = prepare(folder, "uni100")
    curtailed = Curtailed(test, LONGEST_SAMPLED)
    start = time.perf_counter()
    trainer.evaluate(curtailed, load_best_model=False)
    seconds = time.perf_counter() - start
    return {
        "sampled_seconds": seconds * test.sample_size / curtailed.users,
        "evaluated_users": test.sample_size,
        "scaled_from": curtailed.users,
    }


def main() -> None:
    """Measure on the file named on the command line and print the record."""
    text, seconds, mode = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    # RecBole also parses the command line and warns about unknown arguments.
    del sys.argv[1:]
    text = text.resolve()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(THREADS)
    if mode in (["unwatched"], ["bert4rec-unwatched"]):
        # Importing any sequential model of RecBole imports SINE, which turns detection on globally.
        torch.autograd.set_detect_anomaly(False)
    # RecBole's trainer leaves a log in the working folder.
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        write_atomic_file(text, folder)
        if mode == ["sampled"]:
            record = rank_sampled(folder)
        elif mode and mode[0].startswith("bert4rec"):
            record = train_bert4rec(folder, seconds)
        else:
            record = train_and_rank(folder, seconds)
    print(json.dumps(record))


if __name__ == "__main__":
    main()
