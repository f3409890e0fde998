"""Measure RecTools' time from the text file `user item` to the loader of SASRec's training.

In RecTools' favour, the time excludes imports and building the model, nothing is held out, and the
loader pads batch by batch later. RecTools requires times, so the row number serves as one.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from pathlib import Path

import pandas as pd
from rectools import Columns
from rectools.dataset import Dataset
from rectools.models import SASRecModel

LONGEST_SEQUENCE = 50


def read_interactions(text: Path) -> pd.DataFrame:
    """Return the file as the table that `Dataset.construct` requires."""
    table = pd.read_csv(text, sep=" ", names=[Columns.User, Columns.Item])
    table[Columns.Weight] = 1.0
    table[Columns.Datetime] = range(len(table))
    return table


def prepare(text: Path) -> dict[str, float]:
    """Return RecTools' seconds and its counts for the file."""
    preparator = SASRecModel(session_max_len=LONGEST_SEQUENCE).data_preparator
    start = time.perf_counter()
    dataset = Dataset.construct(read_interactions(text))
    # These two calls are what `SASRecModel.fit` does with a dataset before it trains.
    preparator.process_dataset_train(dataset)
    preparator.get_dataloader_train()
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "users": dataset.user_id_map.size,
        "items": dataset.item_id_map.size,
        "events": len(dataset.interactions.df),
    }


def main() -> None:
    """Prepare the file named on the command line and print the record."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print(json.dumps(prepare(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
