from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import whence
from conftest import interactions_of
from whence.data import Interactions, last_two
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.explanation import Explanation
from whence.measure import mean_over_seeds
from whence.models import fitted_model
from whence.run import Run
from whence.trust import precision_at_cause, precision_on_world, sign_at_cause
from whence.trust.truth import true_reasons as likeness_module
from whence.worlds import REASONS, compare_statistics, world_like

SMALL: dict[str, Any] = {"users": 60, "steps": 3, "cases": 20, "show_progress": False}


def test_marks_are_those_of_the_same_model_trained_on_the_world(
    run: Run, interactions: Interactions
) -> None:
    """The same way by hand, for two seeds, each of which has its own value."""
    methods = ["rollout", "leave-one-out"]
    found = precision_on_world(run, interactions, methods, seeds=2, seed=5, **SMALL)
    world = world_like(interactions, users=60, seed=5)
    trained = whence.train(
        world.interactions,
        model="sasrec",
        recipe="baumhauer-2021",
        model_settings={"max_len": 12, "dim": 16},
        training={"steps": 3, "batch_size": 64},
        seeds=2,
        show_progress=False,
    )
    assert list(found.scores) == methods
    assert found.alike == compare_statistics(interactions, world.interactions)
    assert found.accuracy is not None
    recall = [metrics["test"]["recall@10"]["value"] for metrics in trained.metrics.values()]
    assert found.accuracy.model.value == pytest.approx(np.mean(recall))
    split = last_two(world.interactions)
    popularity = whence.evaluate(fitted_model("popularity", {}, split), split, "test", 50)
    assert found.accuracy.popularity == popularity["recall@10"]
    for reason in REASONS:
        asked = world.questions(reason, 12, 20, seed=5)
        batch, targets = map(torch.from_numpy, (asked.cases.histories(12), asked.cases.targets))
        for method in methods:
            said = [
                explain_batch(model, batch, targets, method, seed)
                for seed, model in trained.models.items()
            ]
            mark = found.scores[method][reason]
            precision = [precision_at_cause(one, asked).value for one in said]
            assert mark.precision.value == pytest.approx(np.mean(precision))
            assert mark.precision.n == len(mark.hits) == len(asked.cases) > 0
            assert np.mean(mark.hits) == pytest.approx(mark.precision.value)
            assert "mean over 2 seeds" in mark.precision.protocol
            low, high = mean_over_seeds(precision).interval
            assert mark.precision.interval == pytest.approx((max(0, low), min(1, high)))
            if method == "rollout":
                assert mark.sign is None
            else:
                assert mark.sign is not None
                sign = [sign_at_cause(one, asked).value for one in said]
                assert mark.sign.value == pytest.approx(np.mean(sign))


def test_one_seed_is_the_default_and_gives_the_same_again(
    run: Run, interactions: Interactions
) -> None:
    one, again = (
        precision_on_world(run, interactions, ["leave-one-out"], **SMALL) for _ in range(2)
    )
    assert one == again
    mark = one.scores["leave-one-out"]["taste"]
    assert mark.precision.interval[0] < mark.precision.value < mark.precision.interval[1]
    assert "seeds" not in mark.precision.protocol


def test_a_trained_model_is_explained_better_than_by_chance(
    run: Run, interactions: Interactions
) -> None:
    marks = precision_on_world(
        run, interactions, ["leave-one-out", "random"], steps=300, show_progress=False
    ).scores
    found, chance = (marks[name]["caused"].precision for name in ("leave-one-out", "random"))
    assert found.interval[0] > chance.interval[1]
    sign = marks["leave-one-out"]["caused"].sign
    assert sign is not None
    assert sign.interval[0] > 0.5


def test_training_is_set_as_in_the_run_but_for_its_steps(
    run: Run, interactions: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: dict[str, Any] = {}

    def train(data: Interactions, **settings: Any) -> Run:  # noqa: ANN401
        handed.update(settings)
        return run

    monkeypatch.setattr(likeness_module, "train", train)
    changed = {"steps": 1_000, "warmup": 100, "average_every": 5, "snapshots": 11, "clip": 2.0}
    longer = replace(run, training={**run.training, **changed, "split": "user-holdout"})
    older = {name: value for name, value in longer.training.items() if name != "absence"}
    longer = replace(longer, training=older)
    world = world_like(interactions, users=300)
    assert world.interactions.item_count == len(run.catalog), "the run stands for the trained one"
    precision_on_world(
        longer, interactions, ["random"], users=300, steps=50, cases=1, show_progress=False
    )
    training = handed["training"]
    assert (handed["model"], handed["split"], handed["device"]) == ("sasrec", "user-holdout", "cpu")
    assert handed["model_settings"]["dim"] == 16
    assert (training["steps"], training["warmup"], training["average_every"]) == (50, 5, 1)
    assert (training["snapshots"], training["validate_every"]) == (0, 0)
    assert (training["clip"], training["batch_size"]) == (2.0, 64)
    assert training["part_dropout"] == 0, "a run of before there was this setting"


def test_nothing_is_trained_for_what_cannot_be_asked(
    run: Run, interactions: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(likeness_module, "train")
    with pytest.raises(InputError, match="There is no explainer 'nonsense'"):
        precision_on_world(run, interactions, ["random", "nonsense"])
    with pytest.raises(InputError, match="at least one explainer, and use at least one case"):
        precision_on_world(run, interactions, [])
    with pytest.raises(InputError, match="at least one explainer, and use at least one case"):
        precision_on_world(run, interactions, ["random"], cases=0)
    short = interactions_of([[user % 40, (user + 1) % 40] for user in range(50)])
    with pytest.raises(InputError, match=r"needs a user with 3 events or more"):
        precision_on_world(run, short, ["random"])
    mostly_one = interactions_of([[1, 2, 3], *([user] for user in range(50))])
    with pytest.raises(InputError, match="no events with known reasons"):
        precision_on_world(run, mostly_one, ["random"], users=5)


def test_explainers_use_the_memory_that_is_given(
    run: Run, interactions: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []

    def explain(*case: Any, **settings: Any) -> Explanation:  # noqa: ANN401
        used.append(settings["memory"])
        return explain_batch(*case, **settings)

    monkeypatch.setattr(likeness_module, "explain_batch", explain)
    precision_on_world(run, interactions, ["random"], memory=2**20, **SMALL)
    assert set(used) == {2**20}
