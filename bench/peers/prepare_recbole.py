"""Measure RecBole's time from its atomic file to the loaders of SASRec's training and evaluation.

In RecBole's favour, the time excludes imports, configuration, and the conversion of the text file
`user item` to an atomic file. No filter is set, and SASRec's default loss needs no negative
samples. RecBole requires times, so the row number serves as one.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from recbole.config import Config
from recbole.data import create_dataset, data_preparation

DATASET = "video"
LONGEST_SEQUENCE = 50


def write_atomic_file(text: Path, folder: Path) -> None:
    """Rewrite `user item` lines as RecBole's `.inter` file, with the row number as the time."""
    (folder / DATASET).mkdir()
    with text.open() as rows, (folder / DATASET / f"{DATASET}.inter").open("w") as atomic:
        atomic.write("user_id:token\titem_id:token\ttimestamp:float\n")
        for number, row in enumerate(rows):
            user, item = row.split()
            atomic.write(f"{user}\t{item}\t{number}\n")


def settings(folder: Path) -> dict[str, Any]:
    """Return RecBole's documented settings: leave one out, full ranking, SASRec's loss."""
    return {
        "data_path": str(folder),
        # RecBole would load a dataset that an earlier run saved here.
        "checkpoint_dir": str(folder / "saved"),
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        # SASRec needs no times once the events are in order.
        "unused_col": {"inter": ["timestamp", "timestamp_list"]},
        "MAX_ITEM_LIST_LENGTH": LONGEST_SEQUENCE,
        "eval_args": {"split": {"LS": "valid_and_test"}, "order": "TO", "mode": "full"},
        "train_neg_sample_args": None,
        "use_gpu": False,
    }


def prepare(folder: Path) -> dict[str, float]:
    """Return RecBole's seconds and its counts for the file. Its id 0 is padding."""
    config = Config(model="SASRec", dataset=DATASET, config_dict=settings(folder))
    start = time.perf_counter()
    dataset = create_dataset(config)
    # Count before the split, which turns the events into pairs of a history and its next item.
    events = dataset.inter_num
    data_preparation(config, dataset)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "users": dataset.user_num - 1,
        "items": dataset.item_num - 1,
        "events": events,
    }


def main() -> None:
    """Prepare the file named on the command line and print the record."""
    # RecBole also parses the command line and warns about unknown arguments.
    text = Path(sys.argv.pop(1))
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as name:
        write_atomic_file(text, Path(name))
        record = prepare(Path(name))
    print(json.dumps(record))


if __name__ == "__main__":
    main()
