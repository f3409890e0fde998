"""A clock in RecBole's own training loop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from recbole.data.dataloader import AbstractDataLoader

WARM_UP = 20


class Clocked:
    """Repeat the batches of a loader, and count each after its training step."""

    def __init__(self, loader: AbstractDataLoader, seconds: float, warm_up: int = WARM_UP) -> None:
        self.loader = loader
        self.limit = seconds
        self.warm_up = warm_up
        self.steps = self.rows = 0
        self.seconds = 0.0

    def __iter__(self) -> Iterator[Any]:
        start = time.perf_counter()
        while True:
            for batch in self.loader:
                # The trainer requests the next batch after its step on this one.
                yield batch
                self.steps += 1
                if self.steps <= self.warm_up:
                    start = time.perf_counter()
                    continue
                self.rows += len(batch)
                self.seconds = time.perf_counter() - start
                if self.seconds >= self.limit:
                    return
