"""Accuracy of one seed and of several seeds together, with intervals over users.

Several models recommend together by their mean log-probability, as `Ensemble` does. With equal
weights, the sum of their scores ranks the items in the same order. So every model scores all items
once, and all ensembles that can be drawn from the seeds are ranked from these scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Floats
from whence.data.histories import Cases
from whence.devices import device_of
from whence.errors import InputError
from whence.measure import bootstrap_interval
from whence.memory import cases_at_once, row_slices
from whence.models import Recommender
from whence.ranking import score_all, seen_items
from whence.training.evaluation import TOP, gain
from whence_studies.measurements.measurement import MeasuredRun, Measurement, SeedColumn

Members = tuple[int, ...]
"""The places of the seeds that recommend together."""
METRICS: Final = (f"recall@{TOP}", f"NDCG@{TOP}")
ONE, TOGETHER, GAINED = "{} over users", "{} together", "{} gained together"
MOST_ENSEMBLES: Final = 1_000


@dataclass(frozen=True)
class TogetherOptions:
    """How many seeds recommend together."""

    size: int = 5

    def __post_init__(self) -> None:
        if self.size < 2:
            raise InputError(f"size must be at least 2, not {self.size}.")


def together(subject: MeasuredRun, options: TogetherOptions) -> dict[str, SeedColumn]:
    """Return the columns of single seeds and, if there are enough seeds, of those together."""
    models = list(subject.run.models.values())
    drawn = ensembles(len(models), options.size)
    cases = subject.split.held[subject.held]
    alone = [(seed,) for seed in range(len(models))]
    ranks = ensemble_ranks(models, cases, [*alone, *drawn])
    said = (
        f"{len(cases):,} {subject.held} events, {subject.split.protocol}; ranked among itself and "
        "all items the user has not seen"
    )
    of_one = f"{said}; mean over seeds, bootstrap interval over users"
    of_many = (
        f"{said}; {options.size} seeds recommend together by their mean log-probability; mean over "
        f"{_counted(len(drawn))} of {len(models)} seeds, bootstrap interval over users"
    )
    columns: dict[str, SeedColumn] = {}
    for name, values in zip(METRICS, ((ranks < TOP).astype(np.float64), gain(ranks)), strict=True):
        one, many = values[: len(models)], values[len(models) :]
        columns[ONE.format(name)] = _column(one, alone, of_one)
        if drawn:
            columns[TOGETHER.format(name)] = _column(many, drawn, of_many)
            columns[GAINED.format(name)] = _gain(one, many, drawn, f"{of_many}, paired with one")
    return columns


def _counted(drawn: int) -> str:
    return "the one such ensemble" if drawn == 1 else f"all {drawn} such ensembles"


def ensembles(seeds: int, size: int) -> list[Members]:
    """Return every set of `size` seeds."""
    if comb(seeds, size) > MOST_ENSEMBLES:
        raise InputError(
            f"{seeds} seeds give {comb(seeds, size):,} ensembles of {size}, and at most "
            f"{MOST_ENSEMBLES:,} are measured. Train fewer seeds."
        )
    return list(combinations(range(seeds), size))


@torch.no_grad()
def ensemble_ranks(
    models: Sequence[Recommender], cases: Cases, members: Sequence[Members]
) -> Floats:
    """Return `[K, B]`: the rank of each true item, from 0, by each set of models."""
    length = max(model.config.max_len for model in models)
    items = score_all(models[0], cases[:1], length).shape[1]
    on_gpu = device_of(models[0]).type == "cuda"
    fitting = cases_at_once((len(models) + 2) * items, on_gpu)
    at_once = min(fitting, cases_at_once(length**2, on_gpu))
    order = np.argsort(cases.ends - cases.starts, kind="stable")  # keeps padding short
    ranks = np.zeros((len(members), len(cases)))
    for rows in row_slices(len(cases), at_once):
        some = cases[order[rows]]
        scores = torch.stack([score_all(model, some, length) for model in models])
        ranks[:, order[rows]] = _ranks(scores, some, members).cpu().numpy()
    return ranks


def _ranks(scores: Tensor, cases: Cases, members: Sequence[Members]) -> Tensor:
    """Return `[K, B]` from the scores `[S, B, items]`; ties count half, and NaN as higher."""
    targets = torch.from_numpy(cases.targets).to(scores.device)[:, None]
    row, item = (pair.to(scores.device) for pair in seen_items(cases))
    left_out = torch.zeros_like(scores[0], dtype=torch.bool)
    left_out[row, item] = True
    left_out.scatter_(1, targets, True)
    ranks = []
    for seeds in members:
        total = scores[list(seeds)].sum(dim=0)
        own = total.gather(1, targets)
        total.masked_fill_(left_out, -torch.inf)
        higher = ~(total <= own)
        ranks.append(higher.sum(dim=1) + (total == own).sum(dim=1) / 2)
    return torch.stack(ranks)


def _column(values: Floats, members: Sequence[Members], protocol: str) -> SeedColumn:
    """Return the mean over sets of seeds `[K, B]`, and over those with each seed."""
    by_set = values.mean(axis=1)
    return SeedColumn(
        per_seed=_by_seed(by_set, members),
        n=values.shape[1],
        protocol=protocol,
        direction="higher is better",
        interval=bootstrap_interval(values.mean(axis=0)),
        spread=float(by_set.std(ddof=1)) if len(by_set) > 1 else None,
    )


def _gain(one: Floats, many: Floats, members: Sequence[Members], protocol: str) -> SeedColumn:
    """Return how much better the sets `[K, B]` are than single seeds `[S, B]`."""
    gained = np.subtract(_by_seed(many.mean(axis=1), members), one.mean(axis=1))
    lead = many.mean(axis=0) - one.mean(axis=0)
    return SeedColumn(
        per_seed=tuple(gained.tolist()),
        n=one.shape[1],
        protocol=protocol,
        direction="higher is better",
        interval=bootstrap_interval(lead),
    )


def _by_seed(by_set: Floats, members: Sequence[Members]) -> tuple[float, ...]:
    """Return the mean of the sets with each seed; every seed is in equally many sets."""
    seeds = range(1 + max(max(one) for one in members))
    return tuple(
        float(np.mean([value for value, one in zip(by_set, members, strict=True) if seed in one]))
        for seed in seeds
    )


MEASUREMENT: Final = Measurement(
    tuple(column.format(name) for column in (ONE, TOGETHER, GAINED) for name in METRICS),
    together,
    TogetherOptions,
    over_users=True,
)
