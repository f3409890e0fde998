"""Trainings that begin with the weights of other runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import whence
from whence.contract import ALL
from whence.data import Interactions
from whence.errors import InputError
from whence.run import Run

WIDTH = {"dim": 4}
LAYERS = {"dim": 4, "hidden_dims": (8, 6)}


def trained(
    data: Interactions | Path,
    model: str,
    sizes: dict[str, Any],
    steps: int = 3,
    **more: Any,  # noqa: ANN401
) -> Run:
    return whence.train(
        data, model=model, model_settings=sizes, training={"steps": steps, "batch_size": 4},
        show_progress=False, **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def gmf(interactions: Interactions) -> Run:
    return trained(interactions, "gmf", WIDTH, seeds=2)


@pytest.fixture(scope="module")
def mlp(interactions: Interactions) -> Run:
    return trained(interactions, "mlp", LAYERS, seeds=3)


@pytest.fixture(scope="module")
def fism(interactions: Interactions) -> Run:
    return trained(interactions, "fism", WIDTH)


def test_each_seed_begins_with_its_own_where_there_is_one(
    interactions: Interactions, gmf: Run, mlp: Run
) -> None:
    """Seed 2 is not among GMF's, so that it takes the first."""
    run = trained(interactions, "neumf", LAYERS, steps=0, seeds=3, init_from=[mlp, gmf])
    users = torch.arange(10)[:, None]
    for seed, model in run.models.items():
        other = gmf.models[0 if seed == 2 else seed]
        expected = (other.score(users, ALL) + mlp.models[seed].score(users, ALL)) / 2
        torch.testing.assert_close(model.score(users, ALL), expected)


@pytest.mark.parametrize("model", ["deepicf", "deepicf-a"])
def test_deepicf_learns_on_from_fism(interactions: Interactions, fism: Run, model: str) -> None:
    begun = trained(interactions, model, WIDTH, init_from=[fism])
    anew = trained(interactions, model, WIDTH)
    start = fism.first.state_dict()["history"]
    apart = [(run.first.state_dict()["history"] - start).norm() for run in (begun, anew)]
    assert 0 < apart[0] < apart[1]
    assert begun.training["init_from"][0]["model"] == "fism"
    assert anew.training["init_from"] == []


def test_stopped_it_goes_on_from_where_it_was_and_not_from_the_beginning(
    interactions: Interactions, fism: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = interactions.save(tmp_path / "data")
    from_there = replace(fism, loaded=None)

    def train(out: str, until: float | None = None) -> Run:
        return trained(data, "deepicf-a", WIDTH, 30, seeds=2, out=tmp_path / out,
                       init_from=[from_there], until=until)  # fmt: skip

    calm = train("calm")
    clock = iter(np.arange(0.0, 1e6))
    with monkeypatch.context() as patched:
        patched.setattr("time.monotonic", lambda: next(clock))
        with pytest.raises(whence.errors.OutOfTime):
            train("stopped", until=9.0)
    again = train("stopped")
    for seed, model in again.models.items():
        expected = calm.models[seed].state_dict()
        for name, value in model.state_dict().items():
            assert torch.equal(value, expected[name]), name


def test_what_does_not_fit_is_one_sentence(
    interactions: Interactions, gmf: Run, mlp: Run, fism: Run
) -> None:
    def refused(match: str, model: str, runs: list[Run], sizes: dict[str, Any]) -> None:
        with pytest.raises(InputError, match=match):
            trained(interactions, model, sizes, init_from=runs)

    refused("neumf is initialized from runs of gmf and mlp, not of fism", "neumf", [fism], LAYERS)
    refused("neumf is initialized from runs of gmf and mlp, not of gmf\\.", "neumf", [gmf], LAYERS)
    refused("not of gmf and gmf", "neumf", [gmf, gmf], LAYERS)
    refused("No other model can initialize sasrec", "sasrec", [fism], {})
    refused("Train all three with the same settings", "neumf", [gmf, mlp], {"dim": 6})
    refused("Train both with the same dim", "deepicf-a", [fism], {"dim": 5})


def test_other_data_are_one_sentence_though_their_sizes_are_the_same(
    interactions: Interactions, fism: Run
) -> None:
    """A number would be another item there."""
    other = replace(interactions, items=interactions.items[::-1].copy())
    assert other.counts == interactions.counts
    with pytest.raises(InputError, match="The fism run of init_from was trained on other data"):
        trained(other, "deepicf", WIDTH, init_from=[fism])


def test_another_split_is_one_sentence(interactions: Interactions, fism: Run) -> None:
    """What the one holds out the other might have learned."""
    with pytest.raises(InputError, match="split last-two and may know what temporal holds"):
        trained(interactions, "deepicf", WIDTH, init_from=[fism], split="temporal")
