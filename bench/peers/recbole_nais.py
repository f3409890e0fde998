"""How fast RecBole trains NAIS; `python recbole_nais.py TEXT SECONDS BATCH LONGEST`.

The text has a line `user item` for every event, each user's in the order of time, and the last one
of each user is left out. A target is a positive or a negative item, scored and with a label, BATCH
of them a step; LONGEST is the most items of a history, or 0 for all of them.

In RecBole's favour, NAIS has DeepICF's attention and none of the layers after it, and the clock
leaves out the data, the making of the model and the first steps. RecBole pads every history to the
longest one. NAIS has no setting for less; LONGEST goes to what RecBole's data offer for it. No
search for anomalies is on: what turns that on is imported with RecBole's sequential models alone.
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

WIDTH, BETA, NEGATIVES = 16, 0.8, 4
THREADS = 2
WARM_UP = 3


def settings(folder: Path, batch: int) -> dict[str, Any]:
    """The sizes of DeepICF+a, and RecBole's defaults for all else."""
    return {
        "data_path": str(folder),
        # RecBole reads a dataset saved here by an earlier run in place of making one.
        "checkpoint_dir": str(folder / "saved"),
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        "eval_args": {"split": {"LS": "test_only"}, "order": "TO", "mode": "full"},
        "train_neg_sample_args": {"distribution": "uniform", "sample_num": NEGATIVES},
        "train_batch_size": batch,
        "embedding_size": WIDTH,
        "weight_size": WIDTH,
        "beta": BETA,
        "use_gpu": False,
    }


def measure(folder: Path, seconds: float, batch: int, longest: int) -> dict[str, float]:
    """The rate of RecBole's own epoch loop, and the memory of it all."""
    config = Config(model="NAIS", dataset=DATASET, config_dict=settings(folder, batch))
    train, _, _ = data_preparation(config, create_dataset(config))
    data = train.dataset
    if longest:
        data.history_item_matrix = partial(data.history_item_matrix, max_history_len=longest)
    model = NAIS(config, data)
    trainer = Trainer(config, model)
    # Closed before the folder it writes to is removed.
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
    # RecBole reads the command line too, and warns of what it does not know.
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
