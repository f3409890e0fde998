"""Training dynamics, against every snapshot explained by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

import whence
from conftest import TRANSFORMERS
from whence.data import Split
from whence.errors import InputError
from whence.explainers import compare_batch
from whence.models import Recommender
from whence.run import Run
from whence.trust.agreement.rank_agreement import agreement
from whence_studies.measurements.measurement import MeasuredRun, SeedColumn
from whence_studies.measurements.point_sample import PointSample, draw_points
from whence_studies.measurements.training_dynamics import (
    KNEE_LATER,
    MEASUREMENT,
    DynamicsOptions,
    dynamics,
    knee,
)

Followed = Callable[..., Run]
PRINTED = "shapley-printed"
PAIRS = {
    "ρ(∇, α first)": ("gradient-norm", "attention-first"),
    "ρ(∇, α)": ("gradient-norm", "rollout"),
    "ρ(|φ|, α first)": (PRINTED, "attention-first"),
}
RECALL = "recall@10 of 101"


def watched(run: Run, split: Split, how: DynamicsOptions) -> dict[str, SeedColumn]:
    return dict(dynamics(MeasuredRun(run, split, "validation", False), how))


def by_hand(model: Recommender, split: Split, points: int, seed: int) -> dict[str, float]:
    """By line."""
    cases = draw_points(split, "validation", PointSample(points))
    batch, targets = torch.from_numpy(cases.histories(8)), torch.from_numpy(cases.targets)
    methods = ["gradient-norm", "attention-first", "rollout", PRINTED]
    said = compare_batch(model, batch, targets, methods, seed=2 * seed)
    found = {line: agreement(said[one], said[two]).value for line, (one, two) in PAIRS.items()}
    return {**found, RECALL: whence.evaluate(model, split, "validation", 8)[RECALL].value}


@pytest.mark.parametrize("name", list(TRANSFORMERS))
def test_points_of_curves_equal_their_snapshots(
    name: str, followed: Followed, split: Split
) -> None:
    run = followed(name)
    found = watched(run, split, DynamicsOptions(6, seeds=2, events=10_000))
    assert set(found) == set(MEASUREMENT.all_columns)
    assert {len(one.per_seed) for one in found.values()} == {2}, "the first seeds alone"
    steps = sorted(run.snapshots[0])
    curves = {
        seed: [by_hand(run.snapshot(step, seed), split, 6, seed) for step in steps]
        for seed in (0, 1)
    }
    for seed, of_seed in curves.items():
        for line in (*PAIRS, RECALL):
            values = [one[line] for one in of_seed]
            ours = [found[f"{line} after epoch {epoch}"].per_seed[seed] for epoch in range(11)]
            assert ours == pytest.approx(values, abs=1e-9), line
            assert np.ptp(values) > 0
            if line in PAIRS:
                least = found[f"minimum {line} from epoch 1"].per_seed[seed]
                assert least == pytest.approx(min(values[1:]), abs=1e-9)
        knees = [slow_knee([one[line] for one in of_seed]) for line in ("ρ(|φ|, α first)", RECALL)]
        assert found[KNEE_LATER].per_seed[seed] == knees[0] - knees[1]


def test_the_minimum_excludes_the_untrained_model(followed: Followed, split: Split) -> None:
    """The epoch that would be the least is put first, where it does not count."""
    run, how, line = followed(), DynamicsOptions(4, seeds=1, events=5), "ρ(|φ|, α first)"
    found = watched(run, split, how)
    values = [found[f"{line} after epoch {epoch}"].per_seed[0] for epoch in range(11)]
    lowest = 4 * int(np.argmin(values))
    kept = run.snapshots[0]
    swapped = {**kept, 0: kept[lowest], lowest: kept[0]}
    again = watched(replace(run, snapshots={0: swapped}), split, how)
    assert again[f"{line} after epoch 0"].per_seed == (min(values),)
    assert again[f"minimum {line} from epoch 1"].per_seed == (sorted(values)[1],)
    assert min(values) < sorted(values)[1]


def slow_knee(curve: list[float]) -> int:
    """The epoch that lies furthest above the straight line from the first to the last."""
    rise = (curve[-1] - curve[0]) / (len(curve) - 1)
    above = [value - (curve[0] + epoch * rise) for epoch, value in enumerate(curve)]
    return above.index(max(above))


def test_knees_by_hand() -> None:
    """A curve that bends at epoch 2 and one that bends at 7, and one that does not bend."""
    early = [0.0, 0.4, 0.8, 0.82, 0.84, 0.86, 0.9, 0.92, 0.94, 0.97, 1.0]
    late = [0.0, 0.0, 0.0, 0.1, 0.3, 0.6, 0.8, 0.99, 1.0, 1.0, 1.0]
    np.testing.assert_array_equal(knee(np.array([early, late, [0.5] * 11])), [2, 7, 0])


def test_recall_is_of_some_events_spread_over_all(followed: Followed, split: Split) -> None:
    run, every = followed(), split.held["validation"]
    found = watched(run, split, DynamicsOptions(2, seeds=1, events=2))
    ends = replace(split, held={"validation": every[np.array([0, len(every) - 1])]})
    for epoch, step in ((0, 0), (10, 40)):
        expected = whence.evaluate(run.snapshot(step), ends, "validation", 8)[RECALL].value
        assert found[f"{RECALL} after epoch {epoch}"].per_seed == (expected,)
    assert found[KNEE_LATER].protocol.endswith("recall on 2 events")
    every_one = watched(run, split, DynamicsOptions(2, seeds=1, events=10_000))
    assert every_one[KNEE_LATER].protocol.endswith("recall on 300 events"), "as many as there are"


def test_every_epoch_needs_its_snapshot(followed: Followed, split: Split) -> None:
    run = followed()
    for fewer in ({}, {seed: {0: kept[0], 40: kept[40]} for seed, kept in run.snapshots.items()}):
        with pytest.raises(
            InputError, match="snapshots before and after each of 10 epochs.* snapshots=11"
        ):
            watched(replace(run, snapshots=fewer), split, DynamicsOptions(2))


def test_zero_seeds_are_refused() -> None:
    with pytest.raises(InputError, match="seeds and events must be at least 1"):
        DynamicsOptions(seeds=0)
    with pytest.raises(InputError, match="seeds and events must be at least 1"):
        DynamicsOptions(events=0)
    with pytest.raises(InputError, match="points must be at least 1, not 0"):
        DynamicsOptions(points=0)
