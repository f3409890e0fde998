"""Networks that predict skips, trained seed by seed on one set of sessions, and measured.

What is measured of a seed is kept beside its checkpoint, by all that it was made from, the sessions
among it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import whence
from whence.errors import OutOfTime
from whence.files import make_parent, new_file, read_json, sha256, write_json
from whence.sessions import Parts, Tracks, read_tracks
from whence.skips import NetworkConfig, SkipConfig, evaluate, fit_skips
from whence.studies.skip_columns import measures_of
from whence.studies.skip_networks import Learning

Columns = dict[str, float]
SESSIONS = "sessions"
"""How many were tested on, beside the columns of a seed."""


@dataclass(frozen=True)
class Trained:
    """One value a seed and column, as far as there was time."""

    by_seed: Mapping[int, Columns]

    @property
    def sessions(self) -> int | None:
        """How many were tested on."""
        return next((int(columns[SESSIONS]) for columns in self.by_seed.values()), None)

    def values(self, column: str) -> list[float]:
        """Of every seed that is done; of a cause that no session has, none."""
        return [columns[column] for columns in self.by_seed.values() if column in columns]


@dataclass(frozen=True)
class Workshop:
    """Where trainings are kept, what they compute on, and until when."""

    folder: Path
    device: str = "cpu"
    until: float | None = None
    show_progress: bool = True


def train_on(parts: Parts, learning: Learning, workshop: Workshop) -> dict[str, Trained]:
    """Every network, the seeds of one after the other; when time is over, what is done."""
    tracks = read_tracks(parts.train.tracks)
    sessions = _checksum(parts)
    found: dict[str, Trained] = {}
    for row, network in learning.networks.items():
        done: dict[int, Columns] = {}
        try:
            for seed in range(learning.seeds):
                seed_of = _Seed(network, learning.training, seed, sessions)
                done[seed] = seed_of.measure(parts, tracks, workshop)
        except OutOfTime:
            pass
        found[row] = Trained(done)
    return found


@dataclass(frozen=True)
class _Seed:
    """All that a network is made from."""

    network: NetworkConfig
    training: SkipConfig
    seed: int
    sessions: str
    """A checksum of their files."""

    def measure(self, parts: Parts, tracks: Tracks, workshop: Workshop) -> Columns:
        """As it was measured before, or now."""
        kept = workshop.folder / "skips" / f"{self._key(workshop.device)}.json"
        if kept.exists():
            return {name: float(value) for name, value in read_json(kept).items()}
        checkpoint = kept.with_suffix(".safetensors")
        fitted = fit_skips(
            parts,
            tracks,
            self.network,
            self.training,
            self.seed,
            device=workshop.device,
            show_progress=workshop.show_progress,
            checkpoint=checkpoint,
            until=workshop.until,
        )
        found = evaluate(fitted.model, parts.test, tracks)
        columns = {name: one.value for name, one in measures_of(found).items()}
        columns[SESSIONS] = len(found.scores)
        make_parent(kept)
        with new_file(kept) as partial:
            write_json(partial, columns)
        checkpoint.unlink()
        return columns

    def _key(self, device: str) -> str:
        made_from = {**asdict(self), "device": device, "version": whence.__version__}
        return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:20]


def _checksum(parts: Parts) -> str:
    """Of the contents of all files, whatever they are called, and the parts they belong to."""
    every = (parts.train, parts.validation, parts.test)
    of_parts = [_contents(files.logs + files.causes) for files in every]
    contents = [_contents(parts.train.tracks), *of_parts]
    return hashlib.sha256(json.dumps(contents).encode()).hexdigest()


def _contents(paths: tuple[Path, ...]) -> list[str]:
    return [sha256(path) for path in paths]
