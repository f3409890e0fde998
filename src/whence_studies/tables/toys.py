"""The toy tasks of Afchar & Hennequin (2020), whose attributions are known, and what they need.

Beside the print: do selections agree with Shapley values over groups, do other seeds select the
same experts, and what do links and learning all experts at once bring?
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
from whence_studies.measurements.group_agreement import METHODS, SAME, rhos, seeds_apart
from whence_studies.records import Record
from whence_studies.results import compare_with_published
from whence_studies.study import TOYS as TASKS
from whence_studies.study import Study
from whence_studies.toy_data import TOYS, Drawn, Toy

REACH: Final = 3.0
"""How far from the middle, in every dimension, points are drawn where there may be no data."""
NOTEBOOK: Final = "recipe of the notebook"
"""The row beside the print: the published recipe, for as many steps as the study says."""
ACCURACY, ATTRIBUTION = "accuracy", "attribution accuracy"
SAME_OFF: Final = f"{SAME}, off the data"

Columns = dict[str, list[float]]
"""One value a seed."""


@dataclass(frozen=True)
class HowLong:
    """Fresh points for every step; 15,000 steps at a rate of 0.001 are published."""

    steps: int = 1_000
    batch_size: int = 256
    learning_rate: float = 0.005
    points: int = 1_024
    """That all is measured on."""

    def __post_init__(self) -> None:
        if min(self.steps, self.batch_size, self.points) < 1 or not self.learning_rate > 0:
            raise InputError("steps, batch and points are from 1 on, and learning_rate above 0.")

    @property
    def words(self) -> str:
        """For a protocol."""
        return f"{self.steps:,} steps of {self.batch_size:,} points at {self.learning_rate:g}"


@dataclass(frozen=True)
class Trained:
    """How a network with experts is built and taught."""

    recipe: Recipe = DEFAULT
    target: Binary = TWO_CLASSES
    linked: bool = True
    in_turn: bool = False
    """One level of experts after another, instead of all at once."""

    def model(self, toy: Toy, seed: int, how: HowLong) -> TabularModel:
        """Taught with as many steps in all, however many levels there are."""
        model = InterpretableMLP(
            toy.family,
            toy.hidden_dims,
            Randomness(seed).torch("init"),
            target=self.target,
            recipe=self.recipe,
            linked=self.linked,
        )
        levels = diagram_of(toy.family).levels if self.in_turn else [range(len(toy.family))]
        for number, level in enumerate(levels):
            model.train_only(level)
            # Each level goes on with other points.
            batches = toy.batches(how.steps // len(levels), how.batch_size, 1_000 * number + seed)
            fit(model, batches, how.learning_rate)
        return model


def ordinary(toy: Toy, seed: int, how: HowLong) -> TabularModel:
    """One network as wide as all experts together."""
    model = OrdinaryMLP(toy.family, toy.hidden_dims, Randomness(seed).torch("init"))
    fit(model, toy.batches(how.steps, how.batch_size, seed), how.learning_rate)
    return model


ROWS: Final[Mapping[str, Callable[[Toy, int, HowLong], TabularModel]]] = {
    NOTEBOOK: Trained(RECIPES["notebook"], Binary(logarithm="clamped"), linked=False).model,
    "all at once, linked": Trained().model,
    "all at once, not linked": Trained(linked=False).model,
    "one level after another": Trained(in_turn=True).model,
    "ordinary network": ordinary,
}


def measure(study: Study, show_progress: bool = True) -> list[Record]:
    """Every row of every toy, by all seeds."""
    how = build(HowLong, study.measuring.get(TASKS, {}))
    reuse_freed_memory()
    work = [(table, toy, row) for table, toy in _tables(study).items() for row in ROWS]
    records: list[Record] = []
    for table, toy, row in progress_bar("toys", len(work), show_progress, transient=True).track(
        work
    ):
        models = [ROWS[row](TOYS[toy], seed, how) for seed in range(study.seeds)]
        for column, values in _columns(models, TOYS[toy], how.points).items():
            records.append(_record(study, table, toy, row, column, values, how))
    return records


def _tables(study: Study) -> dict[str, str]:
    """By the name of the table, the toy."""
    return {table: rows[NOTEBOOK]["dataset"] for table, rows in study.published.items()}


def _record(
    study: Study, table: str, toy: str, row: str, column: str, values: list[float], how: HowLong
) -> Record:
    printed = study.published[table].get(row, {}).get(column)
    estimate = over_seeds(values)
    return Record(
        study=study.id,
        dataset=toy,
        row=row,
        column=column,
        **estimate._asdict(),
        n=how.points,
        seeds=tuple(range(study.seeds)),
        published=None if printed is None else float(printed),
        verdict=compare_with_published(estimate, printed),
        protocol=f"{table}; {how.words}",
        machine=machine("cpu"),
        command=study.command,
    )


@torch.no_grad()
def _columns(models: Sequence[TabularModel], toy: Toy, points: int) -> Columns:
    """On the same points for all seeds."""
    drawn = toy.draw(points, Randomness(0).torch("evaluation"))
    found: Columns = {
        ACCURACY: [accuracy(model.scores(drawn.rows), drawn.labels).value for model in models]
    }
    experts = [model for model in models if isinstance(model, InterpretableMLP)]
    if not experts:
        return found
    away = (
        2 * torch.rand(drawn.rows.shape, generator=Randomness(1).torch("evaluation")) - 1
    ) * REACH
    selected = [model.attribute(drawn.rows, PLOTTED) for model in experts]
    found[ATTRIBUTION] = [attribution_accuracy(one, drawn.experts).value for one in selected]
    chosen = np.stack([one.argmax(dim=1).numpy() for one in selected])
    off = np.stack([model.attribute(away, PLOTTED).argmax(dim=1).numpy() for model in experts])
    found[SAME], found[SAME_OFF] = same_choice(chosen).over_seeds(), same_choice(off).over_seeds()
    return {**found, **_beside_others(experts, drawn)}


def _beside_others(models: Sequence[InterpretableMLP], drawn: Drawn) -> Columns:
    """Agreement with Shapley values over groups, and how far seeds are apart by each method."""
    told = [
        compare_batch(model, drawn.rows, drawn.labels, METHODS, seed)
        for seed, model in enumerate(models)
    ]
    apart = seeds_apart(told)
    return {**rhos(told), **{column: pairs.over_seeds() for column, pairs in apart.items()}}
