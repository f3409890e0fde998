"""Networks that predict skips, trained and measured seed by seed on one set of sessions.

The measures of a seed are cached next to its weights, under a key of everything it was made from,
including the sessions. Comparisons between seeds are cached under the keys of all seeds. Weights
that exist already, wherever they were trained, are not trained again.
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
from whence.locks import lock, lock_file
from whence_studies.sessions import SessionSplit, Tracks, read_tracks
from whence_studies.skips import (
    NetworkConfig,
    SkipConfig,
    evaluate,
    fit_skips,
    load_network,
    save_network,
)
from whence_studies.tables.skip_columns import DERIVED, measures_of
from whence_studies.tables.skip_networks import TrainingPlan
from whence_studies.tables.skip_seeds import (
    COMPARED,
    SeedExplanations,
    compare_seeds,
    draw_questions,
    explain_questions,
    seed_columns,
)

SeedMeasures = dict[str, float]
SESSIONS = "sessions"
"""Key of the number of test sessions among a seed's measures."""


@dataclass(frozen=True)
class TrainedNetwork:
    """One value per seed and column, for the seeds done in time."""

    by_seed: Mapping[int, SeedMeasures]
    between: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Values that need all seeds."""

    @property
    def sessions(self) -> int | None:
        """Number of test sessions."""
        return next((int(columns[SESSIONS]) for columns in self.by_seed.values()), None)

    def values(self, column: str) -> Sequence[float]:
        """Return the values of all finished seeds; empty for a cause without sessions."""
        if column in self.between:
            return self.between[column]
        if column in DERIVED:
            return [DERIVED[column](columns) for columns in self.by_seed.values()]
        return [columns[column] for columns in self.by_seed.values() if column in columns]


@dataclass(frozen=True)
class Workspace:
    """The cache folder, the device and the time limit."""

    folder: Path
    device: str = "cpu"
    until: float | None = None
    show_progress: bool = True

    @property
    def cache(self) -> Path:
        """The folder of weights and measures."""
        return self.folder / "skips"

    def check_time(self) -> None:
        """Raise before something long starts if the time is over."""
        if self.until is not None and time.monotonic() >= self.until:
            raise OutOfTime("Out of time.")


def train_on(
    parts: SessionSplit, plan: TrainingPlan, workspace: Workspace
) -> dict[str, TrainedNetwork]:
    """Train every network seed by seed; return what is done when the time is over.

    Seeds are compared after each has been measured alone. If only the measures of a network were
    cached, it is trained again for that.
    """
    tracks, sessions = read_tracks(parts.train.tracks), checksum(parts)
    found: dict[str, TrainedNetwork] = {}
    for row in plan.networks:
        done: dict[int, SeedMeasures] = {}
        try:
            for seed in seeds_of(row, plan, sessions):
                done[seed.seed] = seed.measure(parts, tracks, workspace)
        except OutOfTime:
            pass
        found[row] = TrainedNetwork(done)
    for row, network in plan.networks.items():
        if seed_columns(network) and len(found[row].by_seed) == plan.seeds:
            seeds = seeds_of(row, plan, sessions)
            try:
                between = _SeedComparison(seeds, plan.compared).measure(parts, tracks, workspace)
                found[row] = TrainedNetwork(found[row].by_seed, between)
            except OutOfTime:
                pass
    return found


@dataclass(frozen=True)
class SkipSeed:
    """Everything that determines a trained network."""

    network: NetworkConfig
    training: SkipConfig
    seed: int
    sessions: str
    """A checksum of the session files."""

    def key(self, device: str) -> str:
        """Return the cache key."""
        made_from = {**asdict(self), "device": device, "version": whence.__version__}
        return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:20]

    def weights(self, workspace: Workspace) -> Path:
        """Return the path of the trained network, as `save_network` writes it."""
        return workspace.cache / f"{self.key(workspace.device)}-weights.safetensors"

    def measure(self, parts: SessionSplit, tracks: Tracks, workspace: Workspace) -> SeedMeasures:
        """Return the measures from the cache, or measure now."""
        cached = workspace.cache / f"{self.key(workspace.device)}.json"
        if cached.exists():
            return {name: float(value) for name, value in read_json(cached).items()}
        found = evaluate(self.model(parts, tracks, workspace), parts.test, tracks)
        columns = {name: one.value for name, one in measures_of(found).items()}
        columns[SESSIONS] = len(found.scores)
        with new_file(cached) as partial:
            write_json(partial, columns)
        return columns

    def model(self, parts: SessionSplit, tracks: Tracks, workspace: Workspace) -> SequentialModel:
        """Load the network, or train it now. If another study is training it, wait for that."""
        weights = self.weights(workspace)
        if weights.exists() and not lock_file(weights).exists():
            return load_network(self.network, weights, workspace.device)
        make_parent(weights)
        checkpoint = workspace.cache / f"{self.key(workspace.device)}.safetensors"
        with lock(weights, wait=True, until=workspace.until):
            if weights.exists():
                checkpoint.unlink(missing_ok=True)
                return load_network(self.network, weights, workspace.device)
            fitted = fit_skips(
                parts,
                tracks,
                self.network,
                self.training,
                self.seed,
                device=workspace.device,
                show_progress=workspace.show_progress,
                checkpoint=checkpoint,
                until=workspace.until,
            )
            save_network(fitted.model, weights)
            checkpoint.unlink()
            return fitted.model


def seeds_of(row: str, plan: TrainingPlan, sessions: str) -> list[SkipSeed]:
    """Return all seeds of a row, for sessions with this checksum."""
    made_from = plan.networks[row], plan.training_of(row)
    return [SkipSeed(*made_from, seed, sessions) for seed in range(plan.seeds)]


@dataclass(frozen=True)
class _SeedComparison:
    """The seeds of one network, compared on the first `compared` test sessions."""

    seeds: Sequence[SkipSeed]
    compared: int

    def measure(
        self, parts: SessionSplit, tracks: Tracks, workspace: Workspace
    ) -> dict[str, list[float]]:
        """Return the comparison from the cache, or compare now."""
        keys = [seed.key(workspace.device) for seed in self.seeds]
        identity = json.dumps([*keys, self.compared, COMPARED])
        named = hashlib.sha256(identity.encode()).hexdigest()[:20]
        cached = workspace.cache / f"{named}-seeds.json"
        if cached.exists():
            return {name: list(map(float, values)) for name, values in read_json(cached).items()}
        questions = draw_questions(parts.test, tracks, self.compared)

        def explained() -> Iterator[SeedExplanations]:
            for seed in self.seeds:
                workspace.check_time()
                yield explain_questions(seed.model(parts, tracks, workspace), questions, seed.seed)

        found = compare_seeds(explained(), questions)
        with new_file(cached) as partial:
            write_json(partial, found)
        return found


def checksum(parts: SessionSplit) -> str:
    """Return a checksum of all file contents and their split, regardless of file names."""
    every = (parts.train, parts.validation, parts.test)
    of_parts = [_contents(files.logs + files.causes) for files in every]
    contents = [_contents(parts.train.tracks), *of_parts]
    return hashlib.sha256(json.dumps(contents).encode()).hexdigest()


def _contents(paths: tuple[Path, ...]) -> list[str]:
    return [sha256(path) for path in paths]
