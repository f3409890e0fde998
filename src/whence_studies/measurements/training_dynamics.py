"""Figure 4.6 (Baumhauer 2021): how agreement and recall develop in training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from whence.arrays import Floats
from whence.data.splits import HeldOut, Split
from whence.errors import InputError
from whence.models import Recommender
from whence.progress import progress_bar
from whence.run import Run
from whence.training.evaluation import Evaluation
from whence_studies.measurements.explainer_agreement import (
    PRINTED_DRAWS,
    explain_points,
    per_point,
    rho,
)
from whence_studies.measurements.measurement import LinePlot, MeasuredRun, Measurement, SeedColumn
from whence_studies.measurements.point_sample import PointSample, draw_points

EPOCHS: Final = 10
SYMBOLS: Final = ("∇", "α first", "α", "φ")
CORRELATIONS: Final = (rho("∇", "α first"), rho("∇", "α"), rho("φ", "α first"))
RECALL: Final = "recall@10 of 101"
LINES: Final = (*CORRELATIONS, RECALL)
LEAST: Final = tuple(f"minimum {column} from epoch 1" for column in CORRELATIONS)
KNEE_LATER: Final = f"epochs from the knee of {RECALL} to the knee of {rho('φ', 'α first')}"


@dataclass(frozen=True)
class DynamicsOptions(PointSample):
    """How many points, seeds, and events for recall."""

    seeds: int = 5
    events: int = 2_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.seeds, self.events) < 1:
            raise InputError("seeds and events must be at least 1.")


def _at(column: str, epoch: int) -> str:
    return f"{column} after epoch {epoch}"


CURVES: Final = {
    "dynamics": LinePlot(
        title="Training dynamics",
        x="epoch",
        y="mean over points",
        lines={
            column: {float(epoch): _at(column, epoch) for epoch in range(EPOCHS + 1)}
            for column in LINES
        },
    )
}


def dynamics(subject: MeasuredRun, options: DynamicsOptions) -> dict[str, SeedColumn]:
    """Return the columns of every epoch's snapshot, for the first seeds."""
    run = subject.run
    steps = _steps(run)
    cases = draw_points(subject.split, subject.held, options)
    some = _some_events(subject.split, subject.held, options.events)
    evaluation = Evaluation(some, subject.held, run.first.config.max_len)
    seeds = list(run.models)[: options.seeds]
    snapshots = [(seed, step) for seed in seeds for step in steps]
    bar = progress_bar("snapshots", len(snapshots), subject.show_progress, transient=True)

    def measure_model(model: Recommender, seed: int) -> list[float]:
        found = per_point(explain_points(model, cases, SYMBOLS, seed))
        return [
            *(float(np.nanmean(found[column])) for column in CORRELATIONS),
            evaluation.mean(RECALL, model),
        ]

    values = np.array(
        [measure_model(run.snapshot(step, seed), seed) for seed, step in bar.track(snapshots)]
    )
    curves = values.reshape(len(seeds), len(steps), len(LINES)).transpose(2, 0, 1)
    protocol = (
        f"{options.points:,} {subject.held} events, {subject.split.protocol}, {options.words}; "
        f"the target is the next item; {PRINTED_DRAWS}; "
        f"recall on {len(some.held[subject.held]):,} events"
    )
    return {
        column: SeedColumn(tuple(of_seeds.tolist()), options.points, protocol, "neither")
        for column, of_seeds in _columns(dict(zip(LINES, curves, strict=True))).items()
    }


def _columns(curves: dict[str, Floats]) -> dict[str, Floats]:
    """Return one value per seed in every column, from curves `[S, epochs]`."""
    found = {
        _at(column, epoch): curve[:, epoch]
        for column, curve in curves.items()
        for epoch in range(EPOCHS + 1)
    }
    for column, least in zip(CORRELATIONS, LEAST, strict=True):
        found[least] = curves[column][:, 1:].min(axis=1)
    found[KNEE_LATER] = knee(curves[rho("φ", "α first")]) - knee(curves[RECALL])
    return found


def knee(curves: Floats) -> Floats:
    """Return `[S]`: the epoch at which each curve `[S, epochs]` is highest above its chord."""
    share = np.linspace(0, 1, curves.shape[1])
    chord = curves[:, :1] + share * (curves[:, -1:] - curves[:, :1])
    epochs: Floats = (curves - chord).argmax(axis=1).astype(np.float64)
    return epochs


def _steps(run: Run) -> list[int]:
    """Return the steps of the snapshots: the untrained one and one per epoch."""
    kept = sorted(next(iter(run.snapshots.values()), {}))
    if len(kept) != EPOCHS + 1:
        raise InputError(
            f"Dynamics need snapshots before and after each of {EPOCHS} epochs: train with "
            f"snapshots={EPOCHS + 1}."
        )
    return kept


def _some_events(split: Split, held: HeldOut, most: int) -> Split:
    """Return the same split with at most `most` of the held-out events."""
    every = split.held[held]
    rows = np.linspace(0, len(every) - 1, min(most, len(every))).round().astype(np.int64)
    return replace(split, held={held: every[rows]})


MEASUREMENT: Final = Measurement((*LEAST, KNEE_LATER), dynamics, DynamicsOptions, CURVES, edition=2)
