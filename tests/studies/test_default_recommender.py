"""The default against simple models is what choosing and ranking by hand give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import whence
from whence.data import Interactions, Split, last_two
from whence.errors import InputError
from whence.models import Recommender, simple_models
from whence.run import Run
from whence.training import evaluate
from whence.training.choosing import choose
from whence_studies.measurements.default_recommender import (
    DEFAULT,
    LEAD,
    OF_SIMPLE,
    DefaultOptions,
    against_simple,
)
from whence_studies.measurements.measurement import MeasuredRun


@pytest.fixture(scope="module")
def five(interactions: Interactions) -> Run:
    return whence.train(
        interactions,
        model="sasrec",
        model_settings={"max_len": 8, "dim": 8},
        training={"steps": 60, "batch_size": 32},
        seeds=5,
        show_progress=False,
    )


def value(model: Recommender, split: Split) -> float:
    return evaluate(model, split, "test", model.config.max_len)["NDCG@10"].value


def test_the_mean_over_repetitions(five: Run) -> None:
    split = last_two(five.interactions)
    found = against_simple(MeasuredRun(five, split, "test"), DefaultOptions(size=2))
    by_hand = [
        value(
            choose(replace(five, models={one: five.models[one] for one in pair}), split).whole,
            split,
        )
        for pair in ((0, 1), (2, 3))
    ]  # the fifth seed is left over
    own = found[DEFAULT]
    assert own.per_seed == pytest.approx(np.repeat(by_hand, 2))
    assert own.interval
    assert own.interval[0] < np.mean(by_hand) < own.interval[1]
    assert "mean over 2 repetitions of 2 seeds" in own.protocol
    for name, model in simple_models(split).items():
        simple = value(model, split)
        assert found[OF_SIMPLE.format(name)].per_seed == pytest.approx([simple] * 4)
        lead = np.repeat(by_hand, 2) - simple
        assert found[LEAD.format(name)].per_seed == pytest.approx(lead)


def test_fewer_seeds_than_asked_are_one_repetition(five: Run) -> None:
    split = last_two(five.interactions)
    found = against_simple(MeasuredRun(five, split, "test"), DefaultOptions(size=9))
    assert found[DEFAULT].per_seed == pytest.approx([value(choose(five, split).whole, split)] * 5)
    assert "mean over one repetition of 5 seeds" in found[DEFAULT].protocol
    with pytest.raises(InputError, match="size must be at least 1"):
        DefaultOptions(size=0)
