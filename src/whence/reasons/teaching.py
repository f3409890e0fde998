"""Lessons for calibrators: worlds, networks trained on them, and what these recommend."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from safetensors import SafetensorError

import whence
from whence.files import make_parent
from whence.locks import lock
from whence.reasons import pupils
from whence.reasons.lessons import Lesson, lesson_on
from whence.reasons.pupils import BATCH_SIZE, Pupils
from whence.worlds.causal import CausalWorld, make_causal_world
from whence.worlds.designs import CausalConfig

ALL_SEEDS: Final = "all"
FIRST_SEED: Final = "first"


@dataclass(frozen=True)
class WorldLessons:
    """A world and its networks; what they show is kept in a folder."""

    config: CausalConfig
    seeds: int = 5
    users: int = 300
    """How many users are recommended to."""
    device: str = "cpu"
    batch_size: int = BATCH_SIZE
    """That of the networks."""
    attributes: bool = True
    """Whether the groups of the items are known."""

    @cached_property
    def world(self) -> CausalWorld:
        """Return the world."""
        return make_causal_world(self.config)

    @property
    def key(self) -> str:
        """Return a hash of everything that determines the lessons, but for the device."""
        made_from = {
            "world": asdict(self.config),
            "seeds": self.seeds,
            "users": self.users,
            "attributes": self.attributes,
            "network": pupils.recipe(self.batch_size),
            "whence": whence.__version__,
        }
        return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:20]

    def lessons(
        self, cache: Path, *, until: float | None = None, show_progress: bool = True
    ) -> Mapping[str, Lesson]:
        """Return the lesson of all networks together, and that of the first one alone.

        Those that the folder does not hold, or holds damaged, are made now.
        """
        files = {
            name: cache / "lessons" / f"{self.key}-{name}.safetensors"
            for name in (ALL_SEEDS, FIRST_SEED)
        }
        for path in files.values():
            make_parent(path)
        with lock(files[ALL_SEEDS], wait=True, until=until):
            found = _kept(files, self.device)
            if found is None:
                networks = Pupils(self.world, self.seeds, self.device, self.batch_size)
                models = [
                    *networks.models(
                        cache / "pupils", until=until, show_progress=show_progress
                    ).values()
                ]
                for name, some in ((ALL_SEEDS, models), (FIRST_SEED, models[:1])):
                    lesson = lesson_on(
                        self.world, some, users=self.users, attributes=self.attributes
                    )
                    lesson.save(files[name])
                # As they are kept, so that it makes no difference when they were made.
                found = _read(files, self.device)
        return found


def _kept(files: Mapping[str, Path], device: str) -> Mapping[str, Lesson] | None:
    """Return the lessons in these files, unless one is missing, damaged or of another version."""
    if not all(path.exists() for path in files.values()):
        return None
    try:
        return _read(files, device)
    except (OSError, SafetensorError, KeyError, ValueError):
        return None


def _read(files: Mapping[str, Path], device: str) -> Mapping[str, Lesson]:
    """Return the lessons in these files."""
    return {name: Lesson.load(path, device) for name, path in files.items()}
