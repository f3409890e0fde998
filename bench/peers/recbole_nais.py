"""Measure how fast RecBole trains NAIS: `python recbole_nais.py TEXT SECONDS BATCH LONGEST`.

The text has a line `user item` for every event, in order of time for each user. The last event of
each user is left out. A target is a positive or a negative item with its label, and a step has
BATCH of them. LONGEST is the longest history, or 0 for no limit.

In RecBole's favour, NAIS has DeepICF's attention without the layers after it, and the time excludes
the data, building the model and the first steps. RecBole pads every history to the longest one, and
NAIS has no setting for that, so LONGEST goes to RecBole's dataset. Anomaly detection is off: only
RecBole's sequential models turn it on.
"""

from __future__ import annotations

import contextlib
import json
import logging
import resource
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch
from clocked import Clocked
from prepare_recbole import DATASET, write_atomic_file
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.model.general_recommender import NAIS
from recbole.trainer import Trainer

DIM, BETA, NEGATIVES = 16, 0.8, 4
THREADS = 2
WARM_UP = 3


def settings(folder: Path, batch: int) -> dict[str, Any]:
    """Return the sizes of DeepICF+a, with RecBole's defaults for everything else."""
    return {
        "data_path": str(folder),
        # RecBole would load a dataset that an earlier run saved here.
        "checkpoint_dir": str(folder / "saved"),
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        "eval_args": {"split": {"LS": "test_only"}, "order": "TO", "mode": "full"},
        "train_neg_sample_args": {"distribution": "uniform", "sample_num": NEGATIVES},
        "train_batch_size": batch,
        "embedding_size": DIM,
        "weight_size": DIM,
        "beta": BETA,
        "use_gpu": False,
    }


def measure(folder: Path, seconds: float, batch: int, longest: int) -> dict[str, float]:
    """Return the rate of RecBole's epoch loop, and the peak memory."""
    config = Config(model="NAIS", dataset=DATASET, config_dict=settings(folder, batch))
    train, _, _ = data_preparation(config, create_dataset(config))
    data = train.dataset
    if longest:
        data.history_item_matrix = partial(data.history_item_matrix, max_history_len=longest)
    model = NAIS(config, data)
    trainer = Trainer(config, model)
    # Close it before the folder it writes to is removed.
    trainer.tensorboard.close()
    assert not torch.is_anomaly_enabled()
    clocked = Clocked(train, seconds, WARM_UP)
    trainer._train_epoch(clocked, 0)
    return {
        "targets_per_second": clocked.rows / clocked.seconds,
        "steps": clocked.steps - WARM_UP,
        "longest": model.history_item_matrix.shape[1],
        "events": len(data),
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def main() -> None:
    """Measure on the file named on the command line and print the record."""
    text, seconds = Path(sys.argv[1]).resolve(), float(sys.argv[2])
    batch, longest = map(int, sys.argv[3:])
    # RecBole also parses the command line and warns about unknown arguments.
    del sys.argv[1:]
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(THREADS)
    # RecBole's trainer leaves a log in the working folder.
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        write_atomic_file(text, Path(name))
        record = measure(Path(name), seconds, batch, longest)
    print(json.dumps(record))


if __name__ == "__main__":
    main()
