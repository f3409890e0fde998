"""How often a training is kept on its way."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS_BETWEEN_CHECKPOINTS = 1.0
WORK_FOR_A_CHECKPOINT = 20
"""Time spent on training for every second that checkpoints take, where they take long."""


class NowAndThen:
    """Keeps it every second or, where that would take more than a twentieth of the time, less."""

    def __init__(self, save: Callable[[], None]) -> None:
        self.save = save
        self.due = time.monotonic() + SECONDS_BETWEEN_CHECKPOINTS

    def __call__(self) -> None:
        """Keep it, if it is time."""
        started = time.monotonic()
        if started < self.due:
            return
        self.save()
        taken = time.monotonic() - started
        self.due = started + max(SECONDS_BETWEEN_CHECKPOINTS, WORK_FOR_A_CHECKPOINT * taken)
