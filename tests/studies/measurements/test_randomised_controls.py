"""Controls: which weights are whose, and what trained models come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from conftest import TRANSFORMERS
from whence.data import Split
from whence.errors import InputError
from whence.explainers import compare_batch
from whence.run import Run
from whence.trust.agreement.rank_agreement import agreement as mean_rho
from whence_studies.measurements.explainer_agreement import agreement
from whence_studies.measurements.measurement import MeasuredRun
from whence_studies.measurements.point_sample import PointSample, draw_points
from whence_studies.measurements.randomised_controls import MEASUREMENT, controls, versions

Followed = Callable[..., Run]
STRANGE = {
    "trained": (),
    "last block randomised": ("blocks.1.",),
    "blocks randomised": ("blocks.0.", "blocks.1."),
    "items randomised": ("item", "position"),
}
"""How the names begin of the weights that another seed began with."""


@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.parametrize("name", list(TRANSFORMERS))
def test_randomised_weights_are_the_initial_ones_of_another_seed(
    name: str, seed: int, followed: Followed
) -> None:
    run = followed(name)
    before = {one: weight.clone() for one, weight in run.models[seed].state_dict().items()}
    other = run.snapshot(0, {0: 1, 2: 0}[seed]).state_dict()
    found = dict(versions(run, seed))
    assert list(found) == ["trained", "untrained", *list(STRANGE)[1:]]
    for version, beginnings in STRANGE.items():
        for weight, values in found[version].state_dict().items():
            strange = weight.startswith(beginnings)
            assert torch.equal(values, (other if strange else before)[weight]), (version, weight)
    moved = [one for one, weight in before.items() if not torch.equal(weight, other[one])]
    for beginnings in STRANGE.values():
        for begin in beginnings:
            assert any(one.startswith(begin) for one in moved), "or there is nothing to see"
    for weight, values in found["untrained"].state_dict().items():
        assert torch.equal(values, run.snapshot(0, seed).state_dict()[weight])
    after = run.models[seed].state_dict()
    assert all(torch.equal(after[one], weight) for one, weight in before.items())


@pytest.mark.parametrize("name", list(TRANSFORMERS))
def test_every_version_is_explained_separately(name: str, followed: Followed, split: Split) -> None:
    run, how = followed(name), PointSample(8)
    asked = MeasuredRun(run, split, "validation", False)
    found = controls(asked, how)
    assert sorted(found) == sorted(MEASUREMENT.all_columns)
    plain = agreement(asked, how)
    for column in ("ρ(∇, α first)", "ρ(∇, α last)", "ρ(∇, α)", "ρ(|φ*|, α)"):
        assert found[f"{column}, trained"].per_seed == plain[column].per_seed
    cases = draw_points(split, "validation", how)
    batch, targets = torch.from_numpy(cases.histories(8)), torch.from_numpy(cases.targets)
    for place, seed in enumerate(run.models):
        for version, model in versions(run, seed):
            one, two = compare_batch(model, batch, targets, ["gradient-norm", "rollout"]).values()
            expected = mean_rho(one, two).value
            ours = found[f"ρ(∇, α), {version}"].per_seed[place]
            assert ours == pytest.approx(expected, abs=1e-9), version


def test_a_single_seed_is_refused(followed: Followed, split: Split) -> None:
    run = followed()
    alone = replace(run, models={0: run.models[0]})
    with pytest.raises(
        InputError, match="Randomised weights come from another seed: train at least 2"
    ):
        controls(MeasuredRun(alone, split, "validation", False), PointSample(2))
