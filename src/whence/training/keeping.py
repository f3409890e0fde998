"""How often a training is kept on its way, and how it goes on from there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from whence.errors import InputError
from whence.files import reason

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


def go_on(path: Path, device: str, restore: Callable[[dict[str, Tensor]], None]) -> None:
    """Restore a training from a checkpoint, or say what is wrong with the file."""
    try:
        with safe_open(path, framework="pt", device=device) as file:
            restore({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {reason(problem)}.") from None
    except torch.OutOfMemoryError:
        raise
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as problem:
        why = str(problem).partition("\n")[0]
        raise InputError(
            f"{path} does not hold this training ({why}); remove it to begin anew."
        ) from None
