"""Which experts recommendations rest on, as in Figure 6 (Afchar & Hennequin 2020).

It also measures the size of the networks, whether selections agree with Shapley values over the
same groups, and whether seeds select alike, compared with random selections and other methods.
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
    seed_differences,
)
from whence_studies.measurements.measurement import MeasuredRun, Measurement, SeedColumn, SharePlot
from whence_studies.measurements.point_sample import PointSample, draw_points

MOST: Final = {name: f"{name} is selected most" for name in SUBSETS}
MEAN: Final = {name: f"mean weight of {name}" for name in SUBSETS}
ALIKE: Final = {name: f"{SAME}, {name}" for name in SUBSETS}
SHARED_CHOICE: Final = (
    "among cases where one seed selects it most, the share where another seed does too"
)
"""The protocol of these columns."""
SIMPLE, LARGEST = "S1 to S3 are selected most", "the expert selected most often"
PARAMETERS, ALL_FILMS = "parameters", "parameters with all 3,883 films"
WHOLE: Final = Counts(items=3_883, users=6_040)
"""MovieLens-1M with unrated films, which the published parameter counts include."""


@dataclass(frozen=True)
class SelectionOptions:
    """How many held-out events are explained; selections are counted over all."""

    points: int = 1_000

    def __post_init__(self) -> None:
        if self.points < 1:
            raise InputError(f"points must be at least 1, not {self.points}.")


def evidence(subject: MeasuredRun, options: SelectionOptions) -> dict[str, SeedColumn]:
    """Return every column that the models of the run have."""
    models = list(subject.run.models.values())
    every = subject.split.held[subject.held]
    some = draw_points(subject.split, subject.held, PointSample(options.points, "uniformly"))
    bar = progress_bar("explaining", len(models), subject.show_progress, transient=True)
    explanations = [
        _explanations(model, some, seed) for seed, model in enumerate(bar.track(models))
    ]
    protocol = f"{len(every):,} {subject.held} events, {subject.split.protocol}"
    sampled = f"{options.points:,} {subject.held} events, {subject.split.protocol}"
    found = {**_sizes(subject.run), **_selected(models, every, protocol)}
    for column, values in rhos(explanations).items():
        found[column] = _found(
            values, options.points, f"{sampled}; absolute values over three parts"
        )
    for column, apart in (seed_differences(explanations) if len(models) > 2 else {}).items():
        words = f"{sampled}; {apart.protocol}"
        found[column] = _found(apart.over_seeds(), options.points, words, apart.direction)
    return found


def _sizes(run: Run) -> dict[str, SeedColumn]:
    """Return the number of trained parameters, and the number with all films."""
    models = [model for model in run.models.values() if isinstance(model, ContentNCF)]
    if not models:
        return {}
    whole = build_model(run.model, run.model_settings, WHOLE, torch.Generator())
    assert isinstance(whole, ContentNCF)
    return {
        PARAMETERS: _found(
            [model.parameter_count for model in models], 1, "1 network, all trained parameters"
        ),
        ALL_FILMS: _found(
            [whole.parameter_count] * len(models), 1, f"1 network with {WHOLE.items:,} films"
        ),
    }


def _selected(models: Sequence[Recommender], cases: Cases, protocol: str) -> dict[str, SeedColumn]:
    """Return how often each expert has the largest weight, and its mean share of the weight."""
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
    return {**found, **_seed_agreement(chosen, protocol)} if len(models) > 2 else found


def _seed_agreement(chosen: Ints, protocol: str) -> dict[str, SeedColumn]:
    """Return how often two seeds select the same expert most, from choices `[S, B]`."""
    n = chosen.shape[1]
    found = {SAME: _found(same_choice(chosen).over_seeds(), n, protocol)}
    for expert, column in enumerate(ALIKE.values()):
        if values := same_where_chosen(chosen, expert):
            found[column] = _found(values, n, f"{protocol}; {SHARED_CHOICE}")
    return found


@torch.no_grad()
def selections_of(model: CaseReader, cases: Cases) -> Floats:
    """Return `[B, H]`: the selection weights for the next item."""
    assert isinstance(model, HasSelections)
    pieces = []
    for rows in row_slices(len(cases), cases_at_once(1_000)):
        pieces.append(model.selections(*batch_and_targets(model, cases[rows], 1)).weights.cpu())
    found: Floats = torch.cat(pieces).double().numpy()
    return found


def _explanations(model: Recommender, cases: Cases, seed: int) -> Mapping[str, Explanation]:
    """Return the explanations of the same cases by every method the model supports."""
    methods = [name for name in METHODS if name != "experts" or offers(model, "selections")]
    return compare_batch(
        model, *batch_and_targets(model, cases, model.config.max_len), methods, seed
    )


def _found(
    values: Sequence[float] | Floats, n: int, protocol: str, direction: Direction = "neither"
) -> SeedColumn:
    return SeedColumn(tuple(map(float, values)), n, protocol, direction)


MEASUREMENT: Final = Measurement(
    (PARAMETERS, ALL_FILMS, SIMPLE, LARGEST, SAME, *RHO.values(), *KL.values()),
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
                    ("selected most by another seed too", ALIKE),
                    ("mean share of the weights", MEAN),
                )
            },
        )
    },
)
