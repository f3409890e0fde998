"""Networks that predict skips, trained seed by seed on one set of sessions, and measured.

What is measured of a seed is kept beside its checkpoint, by all that it was made from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import whence
from whence.errors import OutOfTime
from whence.experts import SequentialModel
from whence.files import make_parent, new_file, read_json, write_json
from whence.sessions import ListeningConfig, Parts, Tracks, read_tracks
from whence.skips import (
    EXPERT_OF,
    EXPERTS,
    NetworkConfig,
    SkipConfig,
    cause_accuracy,
    evaluate,
    fit_skips,
    mean_attributions,
    shares_of_maximum,
)
from whence.skips.attribution import ALL_CAUSES, EVERY_CAUSE

INTERPRETABLE, ORDINARY = "interpretable Transformer", "ordinary Transformer"
INTERPRETABLE_GRU, ORDINARY_GRU = "interpretable GRU", "ordinary GRU"
FIRST, MEAN = "most selected: ", "mean attribution: "
ATTRIBUTED: Final = (
    ALL_CAUSES,
    EVERY_CAUSE,
    *(cause.word for cause in EXPERT_OF),
    *(f"{what}{name}" for what in (FIRST, MEAN) for name in EXPERTS.names),
)
"""What is measured of a network with experts beside its accuracy."""

SMALL: Final = NetworkConfig(width=16, heads=2, layers=1)
SHORT: Final = SkipConfig(steps=1_500, batch=100, learning_rate=3e-3, validate_every=0)

Columns = dict[str, float]


@dataclass(frozen=True)
class Learning:
    """What is trained and how: small enough for some minutes a seed on one thread of a CPU."""

    network: NetworkConfig = SMALL
    ordinary_heads: int = 8
    training: SkipConfig = SHORT
    seeds: int = 5

    def networks(self) -> dict[str, NetworkConfig]:
        """By row."""
        network = self.network
        ordinary = replace(network, kind="ordinary transformer", heads=self.ordinary_heads)
        return {
            ORDINARY: ordinary,
            INTERPRETABLE: network,
            ORDINARY_GRU: replace(network, kind="ordinary gru"),
            INTERPRETABLE_GRU: replace(network, kind="interpretable gru"),
        }

    def __str__(self) -> str:
        """For a protocol."""
        network, training = self.network, self.training
        layers = "layer" if network.layers == 1 else "layers"
        learned = f"{training.steps:,} steps of {training.batch} sessions"
        return (
            f"8 experts of {network.width} features and {network.heads} heads, {network.layers} "
            f"{layers} each way, beside one network of {8 * network.width} features; "
            f"{learned}, Adam {training.learning_rate:g}"
        )


@dataclass(frozen=True)
class Trained:
    """One value a seed and column, as far as there was time."""

    by_seed: Mapping[int, Columns]
    sessions: int
    """That were tested on."""

    def values(self, column: str) -> list[float]:
        """Of every seed that is done."""
        return [columns[column] for columns in self.by_seed.values()]


@dataclass(frozen=True)
class Workshop:
    """Where trainings are kept, what they compute on, and until when."""

    folder: Path
    device: str = "cpu"
    until: float | None = None
    show_progress: bool = True


def train_on(
    parts: Parts, listening: ListeningConfig, learning: Learning, workshop: Workshop
) -> dict[str, Trained]:
    """Both networks, the seeds of one after the other; when time is over, what is done."""
    tracks = read_tracks(parts.train.tracks)
    found: dict[str, Trained] = {}
    for row, network in learning.networks().items():
        done: dict[int, Columns] = {}
        try:
            for seed in range(learning.seeds):
                done[seed] = _one(
                    parts, tracks, listening, network, learning.training, seed, workshop
                )
        except OutOfTime:
            pass
        found[row] = Trained(done, listening.sessions)
    return found


def _one(
    parts: Parts,
    tracks: Tracks,
    listening: ListeningConfig,
    network: NetworkConfig,
    training: SkipConfig,
    seed: int,
    workshop: Workshop,
) -> Columns:
    """As it was measured before, or now."""
    made_from = {
        "listening": asdict(listening),
        "network": asdict(network),
        "training": asdict(training),
        "seed": seed,
        "device": workshop.device,
        "version": whence.__version__,
    }
    key = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:20]
    kept = workshop.folder / "skips" / f"{key}.json"
    if kept.exists():
        return {name: float(value) for name, value in read_json(kept).items()}
    checkpoint = kept.with_suffix(".safetensors")
    fitted = fit_skips(
        parts,
        tracks,
        network,
        training,
        seed,
        device=workshop.device,
        show_progress=workshop.show_progress,
        checkpoint=checkpoint,
        until=workshop.until,
    )
    columns = _measure(fitted.model, parts, tracks)
    make_parent(kept)
    with new_file(kept) as partial:
        write_json(partial, columns)
    checkpoint.unlink()
    return columns


def _measure(model: SequentialModel, parts: Parts, tracks: Tracks) -> Columns:
    found = evaluate(model, parts.test, tracks)
    measures = found.scores.measures()
    if found.attribution is not None:
        measures |= cause_accuracy(found.attribution)
        measures |= {
            f"{FIRST}{name}": one for name, one in shares_of_maximum(found.attribution).items()
        }
        measures |= {
            f"{MEAN}{name}": one for name, one in mean_attributions(found.attribution).items()
        }
    return {name: one.value for name, one in measures.items()}
