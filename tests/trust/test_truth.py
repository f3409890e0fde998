from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from whence.contract import Explainable
from whence.errors import InputError
from whence.explainers import compare_batch
from whence.explanation import Explanation
from whence.measure import Measure
from whence.run import Run
from whence.trust import precision_at_cause, sign_at_cause
from whence.worlds import REASONS, World, WorldQuestions


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


def questions(world: World, reason: str, truth: list[list[bool]]) -> WorldQuestions:
    found = world.questions(reason, 3, len(truth))
    return WorldQuestions(reason, found.cases, np.array(truth))


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


def test_the_sign_at_the_cause_by_hand(world: World) -> None:
    """For what was caused: a right sign, a wrong one and none. The other way for what was not."""
    scores = [[0.1, 0.9, -0.2], [0.9, -0.1, 0.2], [0.5, 0.0, 0.2]]
    said, truth = hand_made(scores, signed=True), [[False, True, False]] * 3
    caused = sign_at_cause(said, questions(world, "caused", truth))
    assert caused.value == pytest.approx(1 / 3)
    assert caused.n == 3
    prevented = sign_at_cause(said, questions(world, "prevented", truth))
    assert prevented.value == pytest.approx(1 / 3)
    turned = sign_at_cause(replace(said, scores=-said.scores), questions(world, "caused", truth))
    assert turned.value == prevented.value


def test_of_a_taste_the_share_of_right_signs_counts(world: World) -> None:
    """Two of three items of the genre speak for the target, and one of one: (2/3 + 1) / 2."""
    scores = [[0.3, -0.1, 0.2], [-0.9, 0.1, -0.2]]
    truth = [[True, True, True], [False, True, False]]
    found = sign_at_cause(hand_made(scores, signed=True), questions(world, "taste", truth))
    assert found.value == pytest.approx(5 / 6)


def test_a_method_without_signs_has_none_at_the_cause(world: World) -> None:
    asked = questions(world, "caused", [[False, True, False]])
    with pytest.raises(InputError, match=r"^by hand has no signs"):
        sign_at_cause(hand_made([[0.1, 0.9, 0.2]], signed=False), asked)


@pytest.mark.parametrize("measure", [precision_at_cause, sign_at_cause])
def test_only_answers_to_the_questions_are_marked(
    measure: Callable[[Explanation, WorldQuestions], Measure], world: World
) -> None:
    said = hand_made([[0.1, 0.9, 0.2]], signed=True)
    with pytest.raises(InputError, match=r"\[1, 3\] and the questions of shape \[1, 2\]"):
        measure(said, questions(world, "caused", [[False, True]]))
    with pytest.raises(InputError, match=r"^The world has no caused events to test"):
        measure(said, world.questions("caused", 3, 0))
