"""The toy tasks of Afchar & Hennequin (2020), whose attributions are known, and ablations.

In addition to the published accuracies: do selections agree with Shapley values over groups, do
other seeds select the same experts, and what do links and simultaneous training add?
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from whence.config import build
from whence.devices import machine
from whence.errors import InputError
from whence.experts import (
    DEFAULT,
    PLOTTED,
    RECIPES,
    Binary,
    InterpretableMLP,
    OrdinaryMLP,
    Recipe,
    TabularModel,
    accuracy,
    attribution_accuracy,
    diagram_of,
    fit,
)
from whence.experts.mlp import TWO_CLASSES
from whence.explainers import compare_batch
from whence.memory import reuse_freed_memory
from whence.progress import progress_bar
from whence.randomness import Randomness
from whence.trust.stability.seed_pairs import same_choice
from whence_studies.claims import over_seeds
from whence_studies.measurements.group_agreement import METHODS, SAME, rhos, seed_differences
from whence_studies.records import Record, ValuesBySeed
from whence_studies.results import compare_with_published
from whence_studies.study import TOYS as TASKS
from whence_studies.study import Study
from whence_studies.toy_data import TOYS, Toy, ToyPoints

MAX_COORDINATE: Final = 3.0
"""Largest coordinate of points drawn off the data."""
NOTEBOOK: Final = "recipe of the notebook"
"""The row with published values: the published recipe, for this study's number of steps."""
ACCURACY, ATTRIBUTION = "accuracy", "attribution accuracy"
SAME_OFF: Final = f"{SAME}, off the data"


@dataclass(frozen=True)
class ToySchedule:
    """Steps on fresh points; the paper has 15,000 steps at a rate of 0.001."""

    steps: int = 1_000
    batch_size: int = 256
    learning_rate: float = 0.005
    points: int = 1_024
    """Number of points for all measures."""

    def __post_init__(self) -> None:
        if min(self.steps, self.batch_size, self.points) < 1 or not self.learning_rate > 0:
            raise InputError(
                "Set steps, batch_size and points to at least 1, and learning_rate above 0."
            )

    @property
    def words(self) -> str:
        """Part of the protocol."""
        return f"{self.steps:,} steps of {self.batch_size:,} points at {self.learning_rate:g}"


@dataclass(frozen=True)
class ToyRecipe:
    """How a network with experts is built and trained."""

    recipe: Recipe = DEFAULT
    target: Binary = TWO_CLASSES
    linked: bool = True
    levels_in_turn: bool = False
    """Train one level of experts after another, instead of all at once."""

    def model(self, toy: Toy, seed: int, schedule: ToySchedule) -> TabularModel:
        """Train a model; levels in turn share the total number of steps."""
        model = InterpretableMLP(
            toy.family,
            toy.hidden_dims,
            Randomness(seed).torch("init"),
            target=self.target,
            recipe=self.recipe,
            linked=self.linked,
        )
        levels = diagram_of(toy.family).levels if self.levels_in_turn else [range(len(toy.family))]
        for number, level in enumerate(levels):
            model.train_only(level)
            # Each level trains on other points.
            batches = toy.batches(
                schedule.steps // len(levels), schedule.batch_size, 1_000 * number + seed
            )
            fit(model, batches, schedule.learning_rate)
        return model


def ordinary(toy: Toy, seed: int, schedule: ToySchedule) -> TabularModel:
    """Train one network as wide as all experts together."""
    model = OrdinaryMLP(toy.family, toy.hidden_dims, Randomness(seed).torch("init"))
    fit(model, toy.batches(schedule.steps, schedule.batch_size, seed), schedule.learning_rate)
    return model


ROWS: Final[Mapping[str, Callable[[Toy, int, ToySchedule], TabularModel]]] = {
    NOTEBOOK: ToyRecipe(RECIPES["notebook"], Binary(logarithm="clamped"), linked=False).model,
    "all at once, linked": ToyRecipe().model,
    "all at once, not linked": ToyRecipe(linked=False).model,
    "one level after another": ToyRecipe(levels_in_turn=True).model,
    "ordinary network": ordinary,
}


def measure(study: Study, show_progress: bool = True) -> list[Record]:
    """Measure every row of every toy with all seeds."""
    schedule = build(ToySchedule, study.measuring.get(TASKS, {}))
    reuse_freed_memory()
    work = [(table, toy, row) for table, toy in _tables(study).items() for row in ROWS]
    records: list[Record] = []
    for table, toy, row in progress_bar("toys", len(work), show_progress, transient=True).track(
        work
    ):
        models = [ROWS[row](TOYS[toy], seed, schedule) for seed in range(study.seeds)]
        for column, values in _columns(models, TOYS[toy], schedule.points).items():
            records.append(_record(study, table, toy, row, column, values, schedule))
    return records


def _tables(study: Study) -> dict[str, str]:
    """Return the toy of each table."""
    return {table: rows[NOTEBOOK]["dataset"] for table, rows in study.published.items()}


def _record(
    study: Study,
    table: str,
    toy: str,
    row: str,
    column: str,
    values: list[float],
    schedule: ToySchedule,
) -> Record:
    printed = study.published[table].get(row, {}).get(column)
    estimate = over_seeds(values)
    return Record(
        study=study.id,
        dataset=toy,
        row=row,
        column=column,
        **estimate._asdict(),
        n=schedule.points,
        seeds=tuple(range(study.seeds)),
        published=None if printed is None else float(printed),
        verdict=compare_with_published(estimate, printed),
        protocol=f"{table}; {schedule.words}",
        machine=machine("cpu"),
        command=study.command,
    )


@torch.no_grad()
def _columns(models: Sequence[TabularModel], toy: Toy, points: int) -> ValuesBySeed:
    """Measure all seeds on the same points."""
    drawn = toy.draw(points, Randomness(0).torch("evaluation"))
    found: ValuesBySeed = {
        ACCURACY: [accuracy(model.scores(drawn.rows), drawn.labels).value for model in models]
    }
    experts = [model for model in models if isinstance(model, InterpretableMLP)]
    if not experts:
        return found
    off_data = (
        2 * torch.rand(drawn.rows.shape, generator=Randomness(1).torch("evaluation")) - 1
    ) * MAX_COORDINATE
    selected = [model.attribute(drawn.rows, PLOTTED) for model in experts]
    found[ATTRIBUTION] = [attribution_accuracy(one, drawn.experts).value for one in selected]
    chosen = np.stack([one.argmax(dim=1).numpy() for one in selected])
    off = np.stack([model.attribute(off_data, PLOTTED).argmax(dim=1).numpy() for model in experts])
    found[SAME], found[SAME_OFF] = same_choice(chosen).over_seeds(), same_choice(off).over_seeds()
    return {**found, **_compare_methods(experts, drawn)}


def _compare_methods(models: Sequence[InterpretableMLP], drawn: ToyPoints) -> ValuesBySeed:
    """Return the agreement with Shapley values, and the distance between seeds by method."""
    explanations = [
        compare_batch(model, drawn.rows, drawn.labels, METHODS, seed)
        for seed, model in enumerate(models)
    ]
    distances = seed_differences(explanations)
    return {
        **rhos(explanations),
        **{column: pairs.over_seeds() for column, pairs in distances.items()},
    }
