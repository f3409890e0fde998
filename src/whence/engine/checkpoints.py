"""Checkpoints: how often they are written, how they are read, and the folder that holds them."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from whence.errors import InputError
from whence.files import (
    MANIFEST,
    new_file,
    read_json,
    reason,
    refuse_links,
    save_weights,
    write_json,
    writing,
)

SECONDS_BETWEEN_CHECKPOINTS = 1.0
TRAINING_PER_CHECKPOINT = 20
"""Seconds of training for every second that a slow checkpoint takes."""
WRONG_CONTENT = (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError)
"""What tensors of another name, type, shape or value raise."""
VERSION = "Whence version"
"""The setting whose difference says enough."""
OWN_NAMES = re.compile(
    r"manifest\.json|seeds-[0-9]{1,9}-[0-9]{1,9}\.safetensors|seed-[0-9]{1,9}-snapshots|"
    r"\..+\.(whence-)?partial-[0-9a-f]+"
)
"""What the folder of a training holds, also of one that an older version left."""
SHARED = ("step", "format", "position", "identity")
"""Tensors of a checkpoint that belong to all of its seeds."""


class PeriodicSaver:
    """Saves every second, or less often if that would take more than a twentieth of the time."""

    def __init__(self, save: Callable[[], None]) -> None:
        self.save = save
        self.due = time.monotonic() + SECONDS_BETWEEN_CHECKPOINTS

    def __call__(self) -> None:
        """Save, if it is time."""
        started = time.monotonic()
        if started < self.due:
            return
        self.save()
        taken = time.monotonic() - started
        self.due = started + max(SECONDS_BETWEEN_CHECKPOINTS, TRAINING_PER_CHECKPOINT * taken)


def restore_from(path: Path, device: str, restore: Callable[[dict[str, Tensor]], None]) -> None:
    """Pass the tensors of a file to `restore`, or say what is wrong with the file."""
    try:
        with safe_open(path, framework="pt", device=device) as file:
            restore({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {reason(problem)}.") from None
    except torch.OutOfMemoryError:
        raise
    except (SafetensorError, *WRONG_CONTENT) as problem:
        why = str(problem).partition("\n")[0]
        raise InputError(
            f"{path} does not hold this training ({why}). Remove it to start over."
        ) from None


class CheckpointFolder:
    """The folder next to a run that holds its training until the run is written.

    It holds the checkpoints and snapshots of every seed, and the settings that they belong to.
    """

    def __init__(self, run: Path, settings: Mapping[str, Any], overwrite: bool) -> None:
        self.folder = checkpoint_folder(run)
        # A round trip through JSON, so that the two can be compared.
        settings = json.loads(json.dumps(settings))
        if self.folder.exists() or self.folder.is_symlink():
            self._check(settings, overwrite)
        if not self.folder.exists():
            try:
                with new_file(self.folder / MANIFEST, durable=False) as partial:
                    write_json(partial, settings)
            except InputError:
                self.remove()
                raise

    def _check(self, settings: Mapping[str, Any], overwrite: bool) -> None:
        """Remove a training with other settings if `overwrite` allows it."""
        is_folder = self.folder.is_dir() and not self.folder.is_symlink()
        for path in self.folder.iterdir() if is_folder else [self.folder]:
            if not OWN_NAMES.fullmatch(path.name):
                raise InputError(
                    f"{path} is not part of a training. Move it elsewhere, or remove it."
                )
        refuse_links(self.folder)
        try:
            saved = read_json(self.folder / MANIFEST)
        except InputError:
            saved = {}
        if saved == settings:
            return
        if any(self.folder.glob("seed*")) and not overwrite:
            raise InputError(
                f"{self.folder} holds a stopped training {_difference(saved, settings)} "
                "Use --overwrite (in Python overwrite=True) to start over."
            )
        with writing(self.folder):
            shutil.rmtree(self.folder)

    def remove_if_empty(self) -> None:
        """Remove the folder of a training that failed before its first checkpoint."""
        if not any(self.folder.glob("seed*")):
            self.remove()

    def checkpoint(self, seeds: Sequence[int]) -> Path:
        """Return the file of seeds that train together."""
        return self.folder / f"seeds-{seeds[0]}-{seeds[-1]}.safetensors"

    def divide(self, seeds: Sequence[int], parts: Sequence[Sequence[int]]) -> None:
        """Divide the checkpoint of seeds that no longer train together."""
        whole = self.checkpoint(seeds)
        if not whole.exists():
            return

        def save_parts(tensors: Mapping[str, Tensor]) -> None:
            for part in parts:
                own = {*map(str, part), *SHARED}
                kept = {name: one for name, one in tensors.items() if name.partition(".")[0] in own}
                with new_file(self.checkpoint(part), durable=False) as partial:
                    save_weights(partial, kept)

        restore_from(whole, "cpu", save_parts)
        whole.unlink()

    def seeds_at_once(self) -> int | None:
        """Return how many seeds have trained together so far."""
        kept = (path.stem.split("-")[1:] for path in self.folder.glob("seeds-*.safetensors"))
        return max((1 + abs(int(last) - int(first)) for first, last in kept), default=None)

    def snapshots(self, seed: int) -> Path:
        """Return the folder of a seed's snapshots."""
        return self.folder / f"seed-{seed}-snapshots"

    def remove(self) -> None:
        """Remove the folder, when the run is written."""
        shutil.rmtree(self.folder, ignore_errors=True)


def checkpoint_folder(run: Path) -> Path:
    """Return the folder of a run's checkpoints."""
    run = run.resolve()
    return run.with_name(f".{run.name}.unfinished")


def _difference(saved: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Describe how a stopped training differs from the requested one."""
    if VERSION not in saved:
        return "that is damaged or of an older version of Whence, and cannot be resumed."
    names = [name for name in {**settings, **saved} if saved.get(name) != settings.get(name)]
    if VERSION in names:
        return f"of Whence {saved[VERSION]}, which version {settings[VERSION]} cannot resume."
    then, now = (
        ", ".join(f"{name}={one.get(name, 'unknown')}" for name in names)
        for one in (saved, settings)
    )
    return f"with {then}; now it is {now}. Use the same settings to resume it."
