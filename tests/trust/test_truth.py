from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from whence.contract import Explainable
from whence.explainers import compare_batch
from whence.explanation import Explanation
from whence.run import Run
from whence.trust import precision_at_cause
from whence.worlds import REASONS, Questions, World


def hand_made(scores: list[list[float]], signed: bool) -> Explanation:
    values = np.array(scores)
    cases = np.zeros(len(values))
    return Explanation(
        scores=values,
        parts=values != 0,
        target=np.zeros(len(values), dtype=np.int64),
        full_score=cases,
        empty_score=cases,
        removal="none",
        method="by hand",
        parameters={},
        seed=0,
        evaluations=np.zeros(len(scores), dtype=np.int64),
        signed=signed,
    )


def questions(world: World, reason: str, truth: list[list[bool]]) -> Questions:
    found = world.questions(reason, 3, len(truth))
    return Questions(reason, found.cases, np.array(truth))


def test_worked_by_hand(world: World) -> None:
    """A hit, a miss, and two tied first of which one is true: (1 + 0 + ½) / 3."""
    scores = [[0.1, 0.9, 0.2], [0.9, 0.1, 0.2], [0.5, 0.5, 0.2]]
    truth = [[False, True, False]] * 3
    found = precision_at_cause(hand_made(scores, signed=False), questions(world, "caused", truth))
    assert found.value == pytest.approx(0.5)
    assert found.n == 3


def test_a_signed_method_is_asked_what_speaks_against(world: World) -> None:
    scores, truth = [[0.9, -0.5, -0.1]], [[False, True, False]]
    prevented = questions(world, "prevented", truth)
    assert precision_at_cause(hand_made(scores, signed=True), prevented).value == 1.0
    assert precision_at_cause(hand_made(scores, signed=False), prevented).value == 0.0
    caused = questions(world, "caused", truth)
    assert precision_at_cause(hand_made(scores, signed=True), caused).value == 0.0


def test_padding_is_never_the_strongest(world: World) -> None:
    """All parts argue against; the padding's 0 is higher, and is no part."""
    scores, truth = [[0.0, -0.5, -0.1]], [[False, False, True]]
    found = precision_at_cause(hand_made(scores, signed=True), questions(world, "caused", truth))
    assert found.value == 1.0


@pytest.mark.parametrize("reason", REASONS)
def test_an_oracle_is_always_right_and_chance_is_chance(
    reason: str, world: World, run: Run
) -> None:
    asked = world.questions(reason, 12, 400)
    batch, targets = map(torch.from_numpy, (asked.cases.histories(12), asked.cases.targets))
    model: Explainable = run.first
    chance = compare_batch(model, batch, targets, ["random"])["random"]
    expected = (asked.truth.sum(1) / (batch.numpy() >= 0).sum(1)).mean()
    found = precision_at_cause(chance, asked)
    assert found.interval[0] - 0.02 < expected < found.interval[1] + 0.02
    oracle = replace(chance, scores=asked.truth.astype(np.float64))
    assert precision_at_cause(oracle, asked).value == 1.0
