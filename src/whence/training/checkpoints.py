"""How often a training is kept on its way, and how it goes on from there."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from whence.errors import InputError
from whence.files import (
    MANIFEST,
    make_parent,
    new_file,
    read_json,
    reason,
    save_weights,
    write_json,
)

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


# The folder beside a run in which its training is kept until the run is written.


class Unfinished:
    """Checkpoints of every seed, with the settings that they belong to."""

    def __init__(self, run: Path, settings: Mapping[str, Any], overwrite: bool) -> None:
        run = run.resolve()
        self.folder = run.with_name(f".{run.name}.unfinished")
        # As they are read back, so that the two can be compared.
        settings = json.loads(json.dumps(settings))
        if self.folder.exists():
            self._check(settings, overwrite)
        if not self.folder.exists():
            make_parent(self.folder / MANIFEST)
            with new_file(self.folder / MANIFEST) as partial:
                write_json(partial, settings)

    def _check(self, settings: Mapping[str, Any], overwrite: bool) -> None:
        """Other settings are another training, which is only overwritten when that is asked for."""
        begun = read_json(self.folder / MANIFEST) if (self.folder / MANIFEST).exists() else {}
        if begun == settings:
            return
        if any(self.folder.glob("seed*")) and not overwrite:
            other = [
                name for name in {**settings, **begun} if begun.get(name) != settings.get(name)
            ]
            then = ", ".join(f"{name} {begun.get(name, 'unknown')}" for name in other)
            now = ", ".join(f"{name} {settings.get(name, 'unknown')}" for name in other)
            raise InputError(
                f"{self.folder} holds a training that was stopped, with {then}, now it is {now}; "
                "say the same as then to go on, or --overwrite (in Python overwrite=True) to begin "
                "anew."
            )
        shutil.rmtree(self.folder)

    def remove_if_nothing_is_kept(self) -> None:
        """When training failed before its first checkpoint."""
        if not any(self.folder.glob("seed*")):
            self.remove()

    def checkpoint(self, seeds: Sequence[int]) -> Path:
        """Where seeds that train together are kept."""
        return self.folder / f"seeds-{seeds[0]}-{seeds[-1]}.safetensors"

    def divide(self, seeds: Sequence[int], parts: Sequence[Sequence[int]]) -> None:
        """What is kept of seeds that no longer train together goes to those that do."""
        whole = self.checkpoint(seeds)
        if not whole.exists():
            return
        tensors = load_file(whole)
        for part in parts:
            own = {str(seed) for seed in part} | {"step"}
            kept = {name: one for name, one in tensors.items() if name.partition(".")[0] in own}
            with new_file(self.checkpoint(part)) as partial:
                save_weights(partial, kept)
        whole.unlink()

    def at_once(self) -> int | None:
        """How many seeds have trained together so far."""
        kept = (path.stem.split("-")[1:] for path in self.folder.glob("seeds-*.safetensors"))
        return max((int(last) - int(first) + 1 for first, last in kept), default=None)

    def snapshots(self, seed: int) -> Path:
        """The folder for a seed's snapshots."""
        return self.folder / f"seed-{seed}-snapshots"

    def remove(self) -> None:
        """When the run is written."""
        shutil.rmtree(self.folder, ignore_errors=True)
