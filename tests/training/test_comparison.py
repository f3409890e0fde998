"""A recommender compared with the simple models, case by case."""

from __future__ import annotations

import numpy as np
import pytest

from whence.data import Split
from whence.measure import mean_measure
from whence.models import MODELS, fitted_model
from whence.run import Run
from whence.training.comparison import MAIN, Comparison, compare_with_simple
from whence.training.evaluation import Evaluation, PerCase

CASES = 200


def per_case(values: list[float]) -> PerCase:
    return PerCase({MAIN: np.array(values * (CASES // len(values)))}, {MAIN: "by hand"})


def compared(own: list[float], **simple: list[float]) -> Comparison:
    return Comparison(per_case(own), {name: per_case(one) for name, one in simple.items()})


def test_leads_are_paired_by_case(run: Run, split: Split) -> None:
    found = compare_with_simple(run.whole, "sasrec", split, "test")
    assert found is not None
    assert list(found.simple) == MODELS.tagged("simple")
    own = Evaluation(split, "test", 12).full(run.whole).values[MAIN]
    for name, lead in found.leads.items():
        simple = Evaluation(split, "test", 50).full(fitted_model(name, {}, split)).values[MAIN]
        expected = mean_measure(own - simple, lead.protocol, lead.direction, lead.range)
        assert lead.value == pytest.approx(expected.value)
        assert lead.interval == pytest.approx(expected.interval)
        assert lead.n == len(split.held["test"])


def test_a_simple_model_is_not_compared_with_itself(split: Split) -> None:
    found = compare_with_simple(fitted_model("ease", {}, split), "ease", split, "test")
    assert found is not None
    assert set(found.simple) == set(MODELS.tagged("simple")) - {"ease"}
    assert found.others == "every other simple model"


def test_without_events_nothing_is_compared(split: Split) -> None:
    nobody = split.held["test"][:0]
    empty = Split(split.interactions, split.train_ends, split.protocol, {"test": nobody})
    assert compare_with_simple(fitted_model("ease", {}, split), "ease", empty, "test") is None


def test_every_protocol_is_measured_if_asked(split: Split) -> None:
    model = fitted_model("ease", {}, split)
    short = compare_with_simple(model, "ease", split, "test")
    long = compare_with_simple(model, "ease", split, "test", everything=True)
    assert short is not None
    assert long is not None
    assert set(short.own.values) < set(long.own.values)
    assert short.own.values[MAIN].tolist() == long.own.values[MAIN].tolist()


@pytest.mark.parametrize(
    ("comparison", "sentence"),
    [
        (
            compared([0.6, 0.8], popularity=[0.1, 0.2], ease=[0.3, 0.5]),
            "Clearly better than every simple model: NDCG@10 0.700, and 0.400 of ease, the best of "
            "them.",
        ),
        (
            compared([0.0, 1.0], popularity=[0.0, 0.1], ease=[0.98, 0.0]),
            "Better than every simple model, but not clearly better than ease: NDCG@10 0.500, and "
            "0.490 of ease, the best of them.",
        ),
        (
            compared([0.1, 0.3], popularity=[0.0, 0.1], ease=[0.3, 0.5]),
            "Loses to ease: NDCG@10 0.200 and 0.400.",
        ),
        (
            compared([0.98, 0.0], popularity=[0.0, 0.1], ease=[0.0, 1.0]),
            "Not better than ease: NDCG@10 0.490 and 0.500.",
        ),
        (
            compared([0.0, 1.0], popularity=[0.0, 1.0], ease=[0.0, 0.1]),
            "As good as popularity, a simple model: NDCG@10 0.500.",
        ),
    ],
)
def test_the_sentence_says_who_wins(comparison: Comparison, sentence: str) -> None:
    assert comparison.sentence == sentence


def test_sides_follow_the_intervals() -> None:
    found = compared([0.0, 1.0], popularity=[0.0, 0.1], ease=[1.0, 0.0], last=[0.9, 1.0])
    assert found.sides() == (["popularity"], ["ease"], ["last"])
    leads = {name: lead.interval for name, lead in found.leads.items()}
    assert leads["popularity"][0] > 0
    assert leads["ease"][0] < 0 < leads["ease"][1]
    assert leads["last"][1] < 0
