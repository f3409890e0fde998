"""Measure Whence's time from a text file of `user item` lines to batches ready to be drawn.

The time excludes imports, as for the peers. `python prepare_whence.py VIDEO.txt` prints a JSON
object.
"""

from __future__ import annotations

import json
import sys
import time

import whence
from whence.data import Split
from whence.randomness import Randomness
from whence.training.history_batches import HistoryBatches

MAX_LEN, BATCH = 50, 128


def prepare(path: str) -> Split:
    """Read and split the file, and get ready to draw the first batch."""
    split = whence.last_two(whence.load(path))
    HistoryBatches(split, MAX_LEN, BATCH, [Randomness(0)])
    return split


def main() -> None:
    """Prepare the file named on the command line and print the record."""
    start = time.perf_counter()
    data = prepare(sys.argv[1]).interactions
    seconds = time.perf_counter() - start
    counts = {"users": data.user_count, "items": data.item_count, "events": len(data)}
    print(json.dumps({"seconds": seconds, **counts}))


if __name__ == "__main__":
    main()
