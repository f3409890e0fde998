"""Networks that predict skips, trained seed by seed on one set of sessions, and measured.

What is measured of a seed is kept beside its weights, by all that it was made from, the sessions
among it; what is measured between seeds, by all seeds and by how they are compared. Weights that
lie in their place, wherever they were trained, are not trained again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import whence
from whence.errors import OutOfTime
from whence.experts import SequentialModel
from whence.files import make_parent, new_file, read_json, sha256, write_json
from whence_studies.sessions import SessionSplit, Tracks, read_tracks
from whence_studies.skips import (
    NetworkConfig,
    SkipConfig,
    evaluate,
    fit_skips,
    load_network,
    save_network,
)
from whence_studies.tables.skip_columns import FOLLOWING, measures_of
from whence_studies.tables.skip_networks import Learning
from whence_studies.tables.skip_seeds import (
    COMPARED,
    SeedExplanations,
    compare_seeds,
    draw_questions,
    explain_questions,
    seed_columns,
)

Columns = dict[str, float]
SESSIONS = "sessions"
"""How many were tested on, beside the columns of a seed."""


@dataclass(frozen=True)
class Trained:
    """One value a seed and column, as far as there was time."""

    by_seed: Mapping[int, Columns]
    between: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """What needs all seeds."""

    @property
    def sessions(self) -> int | None:
        """How many were tested on."""
        return next((int(columns[SESSIONS]) for columns in self.by_seed.values()), None)

    def values(self, column: str) -> Sequence[float]:
        """Of every seed that is done; of a cause that no session has, none."""
        if column in self.between:
            return self.between[column]
        if column in FOLLOWING:
            return [FOLLOWING[column](columns) for columns in self.by_seed.values()]
        return [columns[column] for columns in self.by_seed.values() if column in columns]


@dataclass(frozen=True)
class Workshop:
    """Where trainings are kept, what they compute on, and until when."""

    folder: Path
    device: str = "cpu"
    until: float | None = None
    show_progress: bool = True

    @property
    def kept(self) -> Path:
        """The folder of weights and of what was measured."""
        return self.folder / "skips"

    def check_time(self) -> None:
        """Stop before something long is begun."""
        if self.until is not None and time.monotonic() >= self.until:
            raise OutOfTime("The time is over.")


def train_on(parts: SessionSplit, learning: Learning, workshop: Workshop) -> dict[str, Trained]:
    """Every network, the seeds of one after the other; when time is over, what is done.

    Seeds are compared when each has been measured alone, for that may need networks of which only
    the measures were kept, and they are trained again then.
    """
    tracks, sessions = read_tracks(parts.train.tracks), checksum(parts)
    found: dict[str, Trained] = {}
    for row in learning.networks:
        done: dict[int, Columns] = {}
        try:
            for seed in seeds_of(row, learning, sessions):
                done[seed.seed] = seed.measure(parts, tracks, workshop)
        except OutOfTime:
            pass
        found[row] = Trained(done)
    for row, network in learning.networks.items():
        if seed_columns(network) and len(found[row].by_seed) == learning.seeds:
            seeds = seeds_of(row, learning, sessions)
            try:
                between = _Between(seeds, learning.compared).measure(parts, tracks, workshop)
                found[row] = Trained(found[row].by_seed, between)
            except OutOfTime:
                pass
    return found


@dataclass(frozen=True)
class SkipSeed:
    """All that a network is made from."""

    network: NetworkConfig
    training: SkipConfig
    seed: int
    sessions: str
    """A checksum of their files."""

    def key(self, device: str) -> str:
        """What all that is kept of it is called by."""
        made_from = {**asdict(self), "device": device, "version": whence.__version__}
        return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:20]

    def weights(self, workshop: Workshop) -> Path:
        """Where the trained network lies, as `save_network` writes it."""
        return workshop.kept / f"{self.key(workshop.device)}-weights.safetensors"

    def measure(self, parts: SessionSplit, tracks: Tracks, workshop: Workshop) -> Columns:
        """As it was measured before, or now."""
        kept = workshop.kept / f"{self.key(workshop.device)}.json"
        if kept.exists():
            return {name: float(value) for name, value in read_json(kept).items()}
        found = evaluate(self.model(parts, tracks, workshop), parts.test, tracks)
        columns = {name: one.value for name, one in measures_of(found).items()}
        columns[SESSIONS] = len(found.scores)
        with new_file(kept) as partial:
            write_json(partial, columns)
        return columns

    def model(self, parts: SessionSplit, tracks: Tracks, workshop: Workshop) -> SequentialModel:
        """As it was trained before, or now."""
        weights = self.weights(workshop)
        if weights.exists():
            return load_network(self.network, weights, workshop.device)
        make_parent(weights)
        checkpoint = workshop.kept / f"{self.key(workshop.device)}.safetensors"
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
        save_network(fitted.model, weights)
        checkpoint.unlink()
        return fitted.model


def seeds_of(row: str, learning: Learning, sessions: str) -> list[SkipSeed]:
    """Every one that is trained on sessions of this checksum."""
    made_from = learning.networks[row], learning.training_of(row)
    return [SkipSeed(*made_from, seed, sessions) for seed in range(learning.seeds)]


@dataclass(frozen=True)
class _Between:
    """The seeds of one network, on the first so many test sessions."""

    seeds: Sequence[SkipSeed]
    compared: int

    def measure(
        self, parts: SessionSplit, tracks: Tracks, workshop: Workshop
    ) -> dict[str, list[float]]:
        """As it was measured before, or now."""
        keys = [seed.key(workshop.device) for seed in self.seeds]
        how = json.dumps([*keys, self.compared, COMPARED])
        named = hashlib.sha256(how.encode()).hexdigest()[:20]
        kept = workshop.kept / f"{named}-seeds.json"
        if kept.exists():
            return {name: list(map(float, values)) for name, values in read_json(kept).items()}
        questions = draw_questions(parts.test, tracks, self.compared)

        def explained() -> Iterator[SeedExplanations]:
            for seed in self.seeds:
                workshop.check_time()
                yield explain_questions(seed.model(parts, tracks, workshop), questions, seed.seed)

        found = compare_seeds(explained(), questions)
        with new_file(kept) as partial:
            write_json(partial, found)
        return found


def checksum(parts: SessionSplit) -> str:
    """Of the contents of all files, whatever they are called, and the parts they belong to."""
    every = (parts.train, parts.validation, parts.test)
    of_parts = [_contents(files.logs + files.causes) for files in every]
    contents = [_contents(parts.train.tracks), *of_parts]
    return hashlib.sha256(json.dumps(contents).encode()).hexdigest()


def _contents(paths: tuple[Path, ...]) -> list[str]:
    return [sha256(path) for path in paths]
