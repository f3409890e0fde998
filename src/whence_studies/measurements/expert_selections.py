"""Which experts recommendations rest on, as Figure 6 (Afchar & Hennequin 2020) counts them.

Beside it: how large the networks are; whether selections agree with Shapley values over the same
kinds of evidence; and whether other seeds select alike, beside what chance and other methods do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from whence.arrays import Floats, Ints
from whence.contract import HasSelections, offers
from whence.data.histories import Cases
from whence.data.interactions import Counts
from whence.errors import InputError
from whence.explainers import compare_batch
from whence.explanation import Explanation
from whence.measure import Direction
from whence.memory import cases_at_once, row_slices
from whence.models import Recommender, build_model
from whence.models.base import CaseReader
from whence.models.content_ncf import SUBSETS, ContentNCF
from whence.progress import progress_bar
from whence.ranking import batch_and_targets
from whence.run import Run
from whence.trust.stability.seed_pairs import same_choice
from whence_studies.measurements.group_agreement import (
    KL,
    METHODS,
    RHO,
    SAME,
    rhos,
    same_where_chosen,
    seeds_apart,
)
from whence_studies.measurements.measurement import MeasuredRun, Measurement, SeedColumn, SharePlot
from whence_studies.measurements.point_sample import PointSample, draw_points

MOST: Final = {name: f"{name} is selected most" for name in SUBSETS}
MEAN: Final = {name: f"mean weight of {name}" for name in SUBSETS}
ALIKE: Final = {name: f"{SAME}, {name}" for name in SUBSETS}
BY_BOTH: Final = "among cases where one seed selects it most, the share where another seed does too"
"""For the protocol of these."""
SIMPLE, LARGEST = "S1 to S3 are selected most", "the expert selected most often"
PARAMETERS, OF_ALL = "parameters", "parameters with all 3,883 films"
WHOLE: Final = Counts(items=3_883, users=6_040)
"""MovieLens-1M with the films that nobody rated, which the published networks count."""


@dataclass(frozen=True)
class SelectionOptions:
    """How many held-out events explainers are asked about; experts are asked about all."""

    points: int = 1_000

    def __post_init__(self) -> None:
        if self.points < 1:
            raise InputError(f"A study asks about at least 1 point, not {self.points}.")


def evidence(asked: MeasuredRun, how: SelectionOptions) -> dict[str, SeedColumn]:
    """Every column that the run's models have."""
    models = list(asked.run.models.values())
    every = asked.split.held[asked.held]
    some = draw_points(asked.split, asked.held, PointSample(how.points, "uniformly"))
    bar = progress_bar("explaining", len(models), asked.show_progress, transient=True)
    told = [_told(model, some, seed) for seed, model in enumerate(bar.track(models))]
    protocol = f"{len(every):,} {asked.held} events, {asked.split.protocol}"
    sampled = f"{how.points:,} {asked.held} events, {asked.split.protocol}"
    found = {**_sizes(asked.run), **_selected(models, every, protocol)}
    for column, values in rhos(told).items():
        found[column] = _found(values, how.points, f"{sampled}; absolute values over three parts")
    for column, apart in (seeds_apart(told) if len(models) > 2 else {}).items():
        words = f"{sampled}; {apart.protocol}"
        found[column] = _found(apart.over_seeds(), how.points, words, apart.direction)
    return found


def _sizes(run: Run) -> dict[str, SeedColumn]:
    """How many numbers were learned, and how many would be with all films."""
    models = [model for model in run.models.values() if isinstance(model, ContentNCF)]
    if not models:
        return {}
    whole = build_model(run.model, run.model_settings, WHOLE, torch.Generator())
    assert isinstance(whole, ContentNCF)
    return {
        PARAMETERS: _found(
            [model.parameter_count for model in models], 1, "1 network, all trained parameters"
        ),
        OF_ALL: _found(
            [whole.parameter_count] * len(models), 1, f"1 network with {WHOLE.items:,} films"
        ),
    }


def _selected(models: Sequence[Recommender], cases: Cases, protocol: str) -> dict[str, SeedColumn]:
    """How often each expert has the largest weight, and its mean share of all weight."""
    if not all(offers(model, "selections") for model in models):
        return {}
    weights = np.stack([selections_of(model, cases) for model in models])  # seeds, cases, experts
    chosen = weights.argmax(axis=2)
    shares = weights / np.maximum(weights.sum(axis=2, keepdims=True), np.finfo(float).tiny)
    first = np.stack([(chosen == place).mean(axis=1) for place in range(len(SUBSETS))])
    columns: dict[str, Floats] = {
        **dict(zip(MOST.values(), first, strict=True)),
        **dict(zip(MEAN.values(), shares.mean(axis=1).T, strict=True)),
        SIMPLE: first[:-1].sum(axis=0),
        LARGEST: first.max(axis=0),
    }
    found = {name: _found(values, len(cases), protocol) for name, values in columns.items()}
    return {**found, **_alike(chosen, protocol)} if len(models) > 2 else found


def _alike(chosen: Ints, protocol: str) -> dict[str, SeedColumn]:
    """How often two seeds select the same expert most, and which one, of `[S, B]`."""
    n = chosen.shape[1]
    found = {SAME: _found(same_choice(chosen).over_seeds(), n, protocol)}
    for expert, column in enumerate(ALIKE.values()):
        if values := same_where_chosen(chosen, expert):
            found[column] = _found(values, n, f"{protocol}; {BY_BOTH}")
    return found


@torch.no_grad()
def selections_of(model: CaseReader, cases: Cases) -> Floats:
    """`[B, H]`: α for the item that came next."""
    assert isinstance(model, HasSelections)
    pieces = []
    for rows in row_slices(len(cases), cases_at_once(1_000)):
        pieces.append(model.selections(*batch_and_targets(model, cases[rows], 1)).weights.cpu())
    found: Floats = torch.cat(pieces).double().numpy()
    return found


def _told(model: Recommender, cases: Cases, seed: int) -> Mapping[str, Explanation]:
    """What every method that can says of the same cases."""
    methods = [name for name in METHODS if name != "experts" or offers(model, "selections")]
    return compare_batch(
        model, *batch_and_targets(model, cases, model.config.max_len), methods, seed
    )


def _found(
    values: Sequence[float] | Floats, n: int, protocol: str, direction: Direction = "neither"
) -> SeedColumn:
    return SeedColumn(tuple(map(float, values)), n, protocol, direction)


MEASUREMENT: Final = Measurement(
    (PARAMETERS, OF_ALL, SIMPLE, LARGEST, SAME, *RHO.values(), *KL.values()),
    evidence,
    options=SelectionOptions,
    bars={
        "evidence": SharePlot(
            title="Which expert is selected",
            down="expert",
            cells={
                (f"{name}: {', '.join(groups)}", across): columns[name]
                for name, groups in SUBSETS.items()
                for across, columns in (
                    ("selected most, share of cases", MOST),
                    ("of these, by another seed too", ALIKE),
                    ("mean share of the weights", MEAN),
                )
            },
        )
    },
)
