"""The audit judges a run by the NDCG@10 of all its models together, against every simple model."""

from __future__ import annotations

from dataclasses import replace

import pytest

import whence
from whence.data import Interactions, Split
from whence.models import MODELS, fitted_model
from whence.models.ensemble import Weight
from whence.run import Run
from whence.training.choosing import with_accuracy
from whence.training.comparison import MAIN
from whence.training.evaluation import Evaluation
from whence.trust.audit.auditor import audit
from whence.trust.audit.finding import Finding


@pytest.fixture(scope="module")
def blend(run: Run, split: Split) -> Run:
    weights = {"sasrec": Weight(0.6, 1.0), "recent-ease": Weight(0.4, 0.1)}
    simple = {"recent-ease": fitted_model("recent-ease", {}, split)}
    return with_accuracy(replace(run, simple=simple, weights=weights), split, show_progress=False)


def accuracy_of(run: Run, model_seed: int | None = None) -> Finding:
    found = audit(run, stages=["accuracy"], cases=20, model_seed=model_seed, show_progress=False)
    return found.findings["accuracy"]


@pytest.mark.parametrize("model_seed", [None, 0, 1])
def test_every_simple_model_is_compared_with_the_whole(
    blend: Run, split: Split, model_seed: int | None
) -> None:
    """Also with those that are part of it; or with the model of a seed, if it is asked for."""
    figures = {one.name: one.measure for one in accuracy_of(blend, model_seed).figures}
    model = blend.chosen(model_seed)
    own = Evaluation(split, "test", model.config.max_len).mean(MAIN, model)
    assert figures[MAIN].value == pytest.approx(own)
    leads = {name for name in figures if name.startswith("lead over ")}
    assert leads == {f"lead over {name}" for name in MODELS.tagged("simple")}
    for name in MODELS.tagged("simple"):
        simple = Evaluation(split, "test", 50).mean(MAIN, fitted_model(name, {}, split))
        assert figures[f"lead over {name}"].value == pytest.approx(own - simple)


def test_a_simple_model_is_compared_with_the_others(interactions: Interactions) -> None:
    run = whence.train(interactions, model="ease", show_progress=False)
    finding = accuracy_of(run)
    leads = {one.name for one in finding.figures if one.name.startswith("lead over ")}
    assert leads == {f"lead over {name}" for name in MODELS.tagged("simple") if name != "ease"}
    assert not any("over seeds" in one.name for one in finding.figures)


def test_seeds_that_were_measured_apart_are_measured_together(run: Run, split: Split) -> None:
    """Former versions recorded the accuracy of each seed alone."""
    figures = {one.name: one.measure for one in accuracy_of(replace(run, accuracy={})).figures}
    assert figures[MAIN].value == pytest.approx(Evaluation(split, "test", 12).mean(MAIN, run.whole))
    assert "mean over 2 seeds" in figures[f"{MAIN} over seeds"].protocol


def test_attention_is_that_of_the_first_seed(blend: Run) -> None:
    found = audit(blend, stages=["permutation"], cases=20, show_progress=False)
    assert found.settings["model_seed"] is None
    notes = found.findings["permutation"].notes
    assert notes[-1] == "Attention belongs to one model. This is the model of seed 0."
    alone = audit(blend, stages=["permutation"], cases=20, model_seed=0, show_progress=False)
    assert alone.findings["permutation"].figures == found.findings["permutation"].figures
    asked = audit(blend, stages=["agreement"], methods=["rollout", "leave-one-out"], cases=20,
                  show_progress=False)  # fmt: skip
    assert asked.settings["model_seed"] == 0


def test_a_blend_can_be_audited_by_all_stages(blend: Run) -> None:
    found = audit(blend, cases=20, show_progress=False)
    assert found.run.recommends == "2 seeds of sasrec (60 %), recent-ease (40 %)"
    assert set(found.obstacles) == {"learned", "stability"}, "no genres, and only two seeds"
