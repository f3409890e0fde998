"""Time RecTools from the text file `user item` to the loader that its SASRec trains with.

In RecTools' favour the clock leaves out the imports and the making of the model, nothing is held
out, and padding is left to the loader, which does it batch by batch. The row number stands in for
the time that RecTools asks of every interaction.
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
    """The file as the table that `Dataset.construct` asks for."""
    table = pd.read_csv(text, sep=" ", names=[Columns.User, Columns.Item])
    table[Columns.Weight] = 1.0
    table[Columns.Datetime] = range(len(table))
    return table


def prepare(text: Path) -> dict[str, float]:
    """The seconds RecTools takes, and what it counts in the file."""
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
