"""Stability of trained models over seeds."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import whence
from conftest import interactions_of, lively_sasrec
from whence.contract import PAD
from whence.data import Interactions, Split, last_two
from whence.errors import InputError
from whence.explainers import compare_batch, explain_batch
from whence.explanation import Explanation
from whence.models import Recommender
from whence.run import Run
from whence.trust import (
    attention_kl,
    overlap,
    seed_stability,
)
from whence.trust.stability.seed_stability import METHODS


@pytest.fixture(scope="module")
def three(interactions: Interactions) -> Run:
    return whence.train(
        interactions,
        model="sasrec",
        model_settings={"max_len": 12, "dim": 16},
        training={"steps": 40, "batch_size": 64},
        seeds=3,
        show_progress=False,
    )


def test_trained_seeds(three: Run, split: Split) -> None:
    found = seed_stability(three.models, split, "validation", cases=60)
    columns = ["KL", "Jaccard distance %"]
    expected = [f"{method} {column}" for method in METHODS for column in columns]
    assert list(found) == ["top-10 overlap", *expected]
    for column, (values, measure) in found.items():
        assert len(values) == 3
        assert np.mean(values) == pytest.approx(measure.value), column
        assert measure.range[0] < measure.value < measure.range[1]
        assert measure.protocol.startswith("60 validation events, last-two split by")
    assert found == seed_stability(three.models, split, "validation", cases=60)
    assert found != seed_stability(three.models, split, "validation", cases=60, seed=1)


def test_explainers_use_the_memory_that_is_given(
    three: Run, split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []

    def compare(*case: Any, **settings: Any) -> dict[str, Explanation]:  # noqa: ANN401
        used.append(settings["memory"])
        return compare_batch(*case, **settings)

    monkeypatch.setattr("whence.trust.stability.seed_stability.compare_batch", compare)
    seed_stability(three.models, split, "test", ["random"], cases=9, memory=2**20)
    assert set(used) == {2**20}


def test_equals_what_recommend_and_explain_say(three: Run, split: Split) -> None:
    """Every user by hand, with the verbs a person has."""
    asked = split.held["test"]
    lists = np.zeros((3, 20, 10), dtype=np.int64)
    sizes = np.zeros((3, 20, 12))
    for (seed, model), case in itertools.product(three.models.items(), range(20)):
        history = asked.items[asked.starts[case] : asked.ends[case]]
        ids = three.catalog.raw_ids(history)
        picks = whence.recommend(three, history=ids, model_seed=seed).picks
        lists[seed, case] = [three.catalog.find(str(pick.item)) for pick in picks]
        one = asked[case : case + 1]
        batch, target = map(torch.from_numpy, (one.histories(12), one.targets))
        sizes[seed, case] = explain_batch(model, batch, target, "leave-one-out").magnitude()[0]
    few = replace(split, held={"test": asked[:20]})
    found = seed_stability(three.models, few, "test", ["leave-one-out"])
    parts = asked[:20].histories(12) != PAD
    assert found["top-10 overlap"][1].value == pytest.approx(overlap(lists).measure().value)
    # One by one, sums have other orders in float32, and logarithms of small shares tell.
    assert found["leave-one-out KL"][0] == pytest.approx(
        attention_kl(sizes, parts).over_seeds(), rel=2e-3
    )


def test_the_same_model_under_every_seed(split: Split) -> None:
    model = lively_sasrec(items=120)
    found = seed_stability({0: model, 5: model, 9: model}, split, "test", cases=40)
    best = {column: 1.0 if column == "top-10 overlap" else 0.0 for column in found}
    for column, (values, measure) in found.items():
        if column.startswith("random"):
            assert measure.value > 0.1, "chance is another for every seed"
        else:
            assert [*values, measure.value] == pytest.approx([best[column]] * 4, abs=1e-9)


def test_who_has_met_nearly_everything() -> None:
    """Four of six items are met, two can be recommended, and three models name the same two."""
    split = last_two(interactions_of([[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0]]))
    models: dict[int, Recommender] = {seed: lively_sasrec(items=6, seed=seed) for seed in range(3)}
    found = seed_stability(models, split, "validation", [])
    assert list(found) == ["top-10 overlap"]
    assert found["top-10 overlap"][0] == pytest.approx([1.0] * 3)


def test_seeds_that_cannot_be_compared(three: Run, split: Split) -> None:
    two = {seed: three.models[seed] for seed in (0, 1)}
    with pytest.raises(InputError, match="at least 3 seeds, not 2"):
        seed_stability(two, split, "test")
    with pytest.raises(InputError, match="max_len to be compared; these have 8, 12"):
        seed_stability({**two, 2: lively_sasrec(items=120)}, split, "test")
    with pytest.raises(InputError, match="cases is 0"):
        seed_stability(three.models, split, "test", cases=0)
    with pytest.raises(InputError, match="'tests': did you mean 'test'"):
        seed_stability(three.models, split, "tests")  # type: ignore[arg-type]


@pytest.mark.needs("cuda")
def test_on_a_gpu(three: Run, split: Split) -> None:
    here = seed_stability(three.models, split, "test", cases=50)
    moved: dict[int, Recommender] = {seed: model.cuda() for seed, model in three.models.items()}
    there = seed_stability(moved, split, "test", cases=50)
    for model in three.models.values():
        model.cpu()
    for column, (values, _) in here.items():
        assert there[column][0] == pytest.approx(values, rel=1e-2, abs=1e-2)
