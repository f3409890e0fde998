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
from whence_studies.measurements.deletion_curves import (
    CURVES,
    MEASUREMENT,
    DeletionOptions,
    deletions,
)
from whence_studies.measurements.measurement import MeasuredRun
from whence_studies.measurements.point_sample import draw_full

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


@pytest.mark.parametrize("wrong", [{"histories": 0}, {"seeds": 0}])
def test_zero_histories_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="histories and seeds must be at least 1"):
        DeletionOptions(**wrong)
