"""What is best on the validation events recommends: a network, a simple model, or both."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import whence
from whence.contract import ALL
from whence.data import Interactions, Split, last_two
from whence.models import MODELS
from whence.models.ensemble import Ensemble
from whence.run import Run
from whence.training import blending
from whence.training.choosing import BLEND, choose, with_accuracy
from whence.training.comparison import MAIN
from whence.training.recipes import ENOUGH_TO_STOP


def trained(interactions: Interactions, steps: int, seeds: int = 2, out: Path | None = None) -> Run:
    """A search: no model is named."""
    return whence.train(
        interactions,
        model_settings={"max_len": 12, "dim": 16},
        training={"steps": steps, "batch_size": 64, "validate_every": 0},
        seeds=seeds,
        out=out,
        show_progress=False,
    )


@pytest.fixture(scope="module")
def blended(interactions: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A network and simple models that are better together."""
    run = trained(interactions, 400, out=tmp_path_factory.mktemp("chosen") / "run")
    assert run.training["chosen"] == BLEND
    return run


@pytest.fixture(scope="module")
def simple(interactions: Interactions) -> Run:
    """A network after one step, which has learned nothing."""
    return trained(interactions, 1, seeds=1)


def metric(run: Run, held: str) -> float:
    found = run.accuracy_of(None, held)
    assert found is not None
    return float(found[MAIN]["value"])


def test_the_best_of_all_that_was_tried_is_kept(blended: Run, simple: Run) -> None:
    for run in (blended, simple):
        tried = run.training["tried"]
        assert set(tried) >= {"sasrec", *MODELS.tagged("simple")}
        assert run.training["chosen"] == max(tried, key=tried.get)
        assert metric(run, "validation") == pytest.approx(max(tried.values()))


def test_a_better_simple_model_is_the_run(simple: Run, interactions: Interactions) -> None:
    name = simple.training["chosen"]
    assert simple.model == name in MODELS.tagged("simple")
    assert simple.whole is simple.first
    assert (simple.training["steps"], simple.training["patience"]) == (0, 0)
    assert all(note.startswith("Tried sasrec. ") for note in simple.training["notes"])
    assert simple.training["notes"]
    assert not simple.simple
    alone = whence.train(interactions, model=name, show_progress=False)
    assert metric(simple, "test") == pytest.approx(metric(alone, "test"))
    one, other = (whence.recommend(run, user=3, k=5) for run in (simple, alone))
    assert one.picks == other.picks


def test_a_blend_is_the_weighted_sum_of_its_members(blended: Run, split: Split) -> None:
    assert isinstance(blended.whole, Ensemble)
    assert set(blended.weights) == {"sasrec", *blended.simple}
    batch = torch.from_numpy(split.held["test"][:20].histories(50))
    expected = torch.zeros(20, split.interactions.item_count)
    for name, one in blended.weights.items():
        assert one.weight > 0
        models = blended.models.values() if name == "sasrec" else [blended.simple[name]]
        for model in models:
            scores = model.score(batch[:, -model.config.max_len :], ALL) / one.temperature
            expected += one.weight * scores / len(models)
    torch.testing.assert_close(blended.whole.score(batch, ALL), expected, rtol=1e-4, atol=1e-4)
    assert "2 seeds of sasrec (" in blended.members
    assert all(f"{name} (" in blended.members for name in blended.simple)


def test_its_accuracy_is_that_of_all_models_together(blended: Run, split: Split) -> None:
    for held in ("validation", "test"):
        found = whence.evaluate(blended.whole, split, held, blended.whole.config.max_len)
        assert metric(blended, held) == pytest.approx(found[MAIN].value)
    each = [one["validation"][MAIN]["value"] for one in blended.metrics.values()]
    assert metric(blended, "validation") > max(each)


def test_weights_and_members_survive_saving(blended: Run, tmp_path: Path) -> None:
    assert blended.folder is not None
    opened = whence.open_run(blended.folder)
    again = whence.open_run(opened.save(tmp_path / "again").folder or "")
    for run in (opened, again):
        assert run.weights == blended.weights
        assert list(run.simple) == list(blended.simple)
        assert run.accuracy == json.loads(json.dumps(blended.accuracy))
        assert run.training == blended.training
        for user in (1, 2, 3):
            assert (
                whence.recommend(run, user=user).to_json()
                == whence.recommend(blended, user=user).to_json()
            )


def test_test_events_have_no_say(blended: Run, split: Split) -> None:
    """Other test events change neither what is kept nor any weight."""
    data = split.interactions
    items = data.items.copy()
    last = split.held["test"].ends
    items[last] = np.random.default_rng(0).integers(0, data.item_count, len(last))
    other = last_two(replace(data, items=items))
    network = replace(blended, simple={}, weights={}, accuracy={}, loaded=other.interactions)
    found = choose(network, other)
    assert found.training["tried"] == blended.training["tried"]
    assert found.weights == blended.weights
    measured = with_accuracy(found, other, show_progress=False)
    assert metric(measured, "validation") == metric(blended, "validation")
    assert metric(measured, "test") != metric(blended, "test")


def test_weights_are_fitted_on_enough_events(
    blended: Run, split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = replace(blended, simple={}, weights={}, training={**blended.training, "notes": []})
    count, items = len(split.held["validation"]), split.interactions.item_count
    for used, said in ((count, f"all {count}"), (count - 50, f"{count - 50} of {count}")):
        monkeypatch.setattr(blending, "SCORES", used * items)
        found = choose(network, split)
        assert found.training["notes"] == [
            f"The weights of the models are fitted on {said} validation events."
        ]
    monkeypatch.setattr(blending, "SCORES", ENOUGH_TO_STOP * items - 1)
    found = choose(network, split)
    assert BLEND not in found.training["tried"]
    assert not any("fitted" in one for one in found.training["notes"])


def test_without_validation_events_nothing_is_chosen(interactions: Interactions) -> None:
    run = whence.train(
        interactions,
        model_settings={"max_len": 12, "dim": 16},
        training={"steps": 1, "batch_size": 64},
        seeds=1,
        split="last-one",
        show_progress=False,
    )
    assert run.model == "sasrec"
    assert "tried" not in run.training


def test_a_model_that_was_named_is_not_exchanged(interactions: Interactions) -> None:
    run = whence.train(
        interactions,
        model="sasrec",
        model_settings={"max_len": 4, "dim": 4},
        training={"steps": 1},
        seeds=1,
        show_progress=False,
    )
    assert (run.model, run.simple) == ("sasrec", {})
