"""The columns of Figure 4.7, against curves that are made one order at a time."""

from __future__ import annotations

from collections.abc import Callable
from math import floor

import numpy as np
import pytest
import torch

from conftest import TRANSFORMERS
from whence.arrays import Floats
from whence.data import Split
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.models import Recommender
from whence.run import Run
from whence.trust import deletion_curves
from whence.trust.faithfulness.deletion import Order
from whence_studies.cache import CachedColumns
from whence_studies.claims import FAILS, HOLDS
from whence_studies.measurements.deletion_curves import (
    CURVES,
    MEASUREMENT,
    DeletionOptions,
    deletions,
)
from whence_studies.measurements.measurement import MeasuredRun, SeedColumn
from whence_studies.measurements.point_sample import draw_full
from whence_studies.results import StudyResults
from whence_studies.study import find_study

N = 8
METHODS = {
    "α first": "attention-first",
    "α last": "attention-last",
    "α": "rollout",
    "∇": "gradient-norm",
    "|φ|": "shapley-printed",
    "|φ*|": "shapley:coalitions=2048",
}


def of_order(model: Recommender, batch: torch.Tensor, shown: str, order: Order) -> dict[str, float]:
    """What stands in the columns of one order, by hand from its curves."""
    (curves,) = deletion_curves(model, batch, [order]).values()
    heights = curves.values
    area, rise = heights_mean(heights), heights[:, -1] - heights[:, 0]
    found = {
        f"area of {shown}": area.mean(),
        f"convexity of {shown}": ((heights[:, 0] + rise / 2 - area) / np.abs(rise)).mean(),
    }
    for tenth in range(11):
        step = floor(N * tenth / 10 + 0.5)
        found[f"{shown}, {10 * tenth} % deleted"] = heights[:, step].mean()
    for top, what in ((1, "item changes"), (10, "ten change")):
        steps = [
            next((step for step, other in enumerate(case) if other), N + 1)
            for case in curves.changed[top]
        ]
        found[f"deletions until the top {what}, {shown}"] = float(np.mean(steps))
    if order != "greedy oracle":
        (true,) = deletion_curves(model, batch, [order], divergence="Jensen-Shannon").values()
        (back,) = deletion_curves(model, batch, [order], kind="insertion").values()
        found[f"area of {shown}, Jensen-Shannon"] = heights_mean(true.values).mean()
        found[f"area of {shown}, insertion"] = heights_mean(back.values).mean()
    return {column: float(value) for column, value in found.items()}


def heights_mean(heights: Floats) -> Floats:
    """`[B]`: the area under each curve, over its width."""
    return np.asarray(np.trapezoid(heights, axis=1) / N)


@pytest.mark.parametrize("name", list(TRANSFORMERS))
def test_the_columns_are_those_of_the_curves(
    name: str, followed: Callable[..., Run], split: Split
) -> None:
    run = followed(name)
    found = deletions(MeasuredRun(run, split, "validation", False), DeletionOptions(12, seeds=2))
    assert sorted(found) == sorted(MEASUREMENT.all_columns)
    assert {(len(one.per_seed), one.n) for one in found.values()} == {(2, 12)}
    cases = draw_full(split, "validation", N, 12)
    batch, targets = torch.from_numpy(cases.histories(N)), torch.from_numpy(cases.targets)
    for seed in (0, 1):
        model = run.models[seed]
        orders: dict[str, Order] = {
            shown: explain_batch(model, batch, targets, how, seed) for shown, how in METHODS.items()
        }
        orders |= {"random": "random order", "greedy oracle": "greedy oracle"}
        expected = {
            column: value
            for shown, order in orders.items()
            for column, value in of_order(model, batch, shown, order).items()
        }
        assert set(expected) == set(found)
        ours = {column: one.per_seed[seed] for column, one in found.items()}
        assert ours == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert len({found[f"area of {shown}"].per_seed for shown in (*METHODS, "random")}) > 4
    assert found["area of ∇"].protocol.startswith("12 validation events with full histories")


def test_curves_start_at_zero_and_end_together(followed: Callable[..., Run], split: Split) -> None:
    found = deletions(
        MeasuredRun(followed(), split, "validation", False), DeletionOptions(5, seeds=1)
    )
    ends = []
    for line in CURVES["deletion"].lines.values():
        assert list(line) == pytest.approx([tenth / 10 for tenth in range(11)])
        assert found[line[0.0]].per_seed == (0.0,)
        ends.append(found[line[1.0]].per_seed[0])
    assert len(ends) == 8
    assert ends == pytest.approx([ends[0]] * 8)
    assert ends[0] > 0


def test_shapes_are_those_of_the_mean_curve(followed: Callable[..., Run], split: Split) -> None:
    """What a claim compares is the straight line and the mean curve, seed by seed."""
    run = followed()
    found = deletions(MeasuredRun(run, split, "validation", False), DeletionOptions(6, seeds=2))
    batch = torch.from_numpy(draw_full(split, "validation", N, 6).histories(N))
    targets = torch.from_numpy(draw_full(split, "validation", N, 6).targets)
    study = find_study("sequential-deletion")
    by_rollout = next(one for one in study.claims if one.text.endswith("BERT4Rec: by rollout"))
    of, than = by_rollout.sides
    assert of.column is not None
    assert than.column is not None
    for seed in (0, 1):
        order = explain_batch(run.models[seed], batch, targets, "rollout")
        (curves,) = deletion_curves(run.models[seed], batch, [order]).values()
        mean = curves.values.mean(axis=0)
        line = np.linspace(mean[0], mean[-1], N + 1)
        expected = np.trapezoid(line - mean) / N
        ours = of.times * found[of.column].per_seed[seed] - found[than.column].per_seed[seed]
        assert ours == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_a_history_with_a_low_end_does_not_decide_the_shape() -> None:
    """One curve ends at 2 below its line, the other at 0.02 far above its own.

    The mean of (line − area) / end is (0.25 − 9.5) / 2, but the mean curve is convex: the area is
    0.35, that under the line 0.505.
    """
    study = find_study("sequential-deletion")
    ends, areas = np.array([2.0, 0.02]), np.array([0.5, 0.2])
    assert np.mean((ends / 2 - areas) / ends) < -4
    noise = np.array([-0.01, 0.0, 0.01])
    columns = {
        "α, 100 % deleted": ends.mean() + noise,
        "area of α": areas.mean() + noise,
    }
    cached = CachedColumns(
        (0, 1, 2),
        {
            name: SeedColumn(tuple(values.tolist()), 2, "2 events", "neither")
            for name, values in columns.items()
        },
    )
    cells = {cell: {"deletion": cached} for cell in study.cells() if cell.dataset == "Games"}
    records = StudyResults(study, "2 CPU cores", "c", cells).records()
    verdicts = {
        (one.model, one.verdict)
        for one in records
        if one.row.endswith(": by rollout") and one.dataset == "amazon-games-sasrec"
    }
    assert verdicts == {("sasrec", HOLDS), ("bert4rec", FAILS)}


@pytest.mark.parametrize("wrong", [{"histories": 0}, {"seeds": 0}])
def test_zero_histories_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="histories and seeds must be at least 1"):
        DeletionOptions(**wrong)
