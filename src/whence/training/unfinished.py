"""The folder beside a run in which its training is kept until the run is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whence.errors import InputError
from whence.files import MANIFEST, make_parent, new_file, read_json, write_json


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

    def begun(self, seeds: Sequence[int]) -> Path:
        """Where they were kept last: maybe within a larger stack, which memory did not hold."""
        own = self.checkpoint(seeds)
        around = [path for path, kept in self._kept() if set(seeds) <= set(kept)]
        return around[0] if around and not own.exists() else own

    def at_once(self) -> int | None:
        """How many seeds have trained together so far."""
        return max((len(kept) for _, kept in self._kept()), default=None)

    def _kept(self) -> list[tuple[Path, range]]:
        """The checkpoints, each with its seeds."""
        found = []
        for path in sorted(self.folder.glob("seeds-*.safetensors")):
            first, last = map(int, path.stem.split("-")[1:])
            found.append((path, range(first, last + 1)))
        return found

    def snapshots(self, seed: int) -> Path:
        """The folder for a seed's snapshots."""
        return self.folder / f"seed-{seed}-snapshots"

    def remove(self) -> None:
        """When the run is written."""
        shutil.rmtree(self.folder, ignore_errors=True)
