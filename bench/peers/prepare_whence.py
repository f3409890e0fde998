"""How long Whence takes from a text file of `user item` lines to batches ready to be drawn.

Imports are before the clock, as for the peers. Run as `python prepare_whence.py VIDEO.txt`; it
prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time

import whence
from whence.data import Split
from whence.randomness import Randomness
from whence.training.history_batches import HistoryBatches

LENGTH, BATCH = 50, 128


def prepare(path: str) -> Split:
    """Read, split and made ready for drawing the first batch."""
    split = whence.last_two(whence.load(path))
    HistoryBatches(split, LENGTH, BATCH, [Randomness(0)])
    return split


def main() -> None:
    """Time one preparation."""
    start = time.perf_counter()
    data = prepare(sys.argv[1]).interactions
    seconds = time.perf_counter() - start
    counts = {"users": data.user_count, "items": data.item_count, "events": len(data)}
    print(json.dumps({"seconds": seconds, **counts}))


if __name__ == "__main__":
    main()
