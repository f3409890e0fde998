"""How well reasons are told, counted one by one, and on a world whose truth is known."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from whence.models import Recommender
from whence.reasons.calibrator import Beliefs
from whence.reasons.figures import Figures
from whence.reasons.judgement import Judgement, Kind, judge
from whence.reasons.lessons import Lesson, lesson_on
from whence.reasons.of_run import default_calibrator
from whence.reasons.scoring import (
    NOISE,
    Scores,
    scores_of_former_rule,
    scores_of_ideal,
)
from whence.training import train
from whence.worlds import CausalWorld, draw_config, make_causal_world


@pytest.fixture(scope="module")
def world() -> CausalWorld:
    return make_causal_world(draw_config("films", 4, users=150, items=80, events=15, groups=4))


@pytest.fixture(scope="module")
def models(world: CausalWorld) -> list[Recommender]:
    run = train(
        world.interactions,
        model="sasrec",
        model_settings={"max_len": 20, "dim": 16},
        training={"steps": 60},
        seeds=2,
        show_progress=False,
    )
    return [*run.models.values()]


@pytest.fixture(scope="module")
def lesson(world: CausalWorld, models: list[Recommender]) -> Lesson:
    return lesson_on(world, models, users=80, k=5)


def test_without_attributes_only_what_is_said_of_groups_differs(
    world: CausalWorld, models: list[Recommender], lesson: Lesson
) -> None:
    found = lesson_on(world, models, users=80, k=5, attributes=False)
    assert torch.equal(found.targets, lesson.targets)
    differ = {
        one.name
        for one in fields(Figures)
        if not torch.equal(getattr(found.figures, one.name), getattr(lesson.figures, one.name))
    }
    about_groups = {"others_lost", "rank_anyway", "usual_in_group", "usual_elsewhere"}
    assert differ
    assert all("group" in one or one in about_groups for one in differ)
    for one in fields(found.truth):
        assert np.array_equal(getattr(found.truth, one.name), getattr(lesson.truth, one.name))


def random_scores(seed: int, count: int = 400) -> Scores:
    rng = np.random.default_rng(seed)
    return Scores(
        said=rng.integers(0, 5, count),
        confidence=rng.uniform(0.3, 1, count),
        posterior=rng.uniform(0, 1, count),
        right=rng.random(count) < 0.5,
        kind=rng.integers(0, NOISE, count),
        true_kind=rng.integers(0, NOISE + 1, count),
        true_probability=rng.uniform(0.3, 1, count),
    )


def test_shares_equal_those_counted_one_by_one() -> None:
    found, sure = random_scores(0), 0.8
    rows = [
        dict(zip([one.name for one in fields(Scores)], row, strict=True))
        for row in zip(*(getattr(found, one.name) for one in fields(Scores)), strict=True)
    ]
    clear = [row for row in rows if row["true_probability"] >= 0.6]

    def named(row: dict[str, float]) -> bool:
        return row["said"] in (Kind.ITEM, Kind.SET) and row["confidence"] >= sure

    said = [row["right"] for row in clear if named(row)]
    caused = [row for row in clear if row["true_kind"] in (Kind.ITEM, Kind.SET)]
    uncaused = [row for row in clear if row["true_kind"] not in (Kind.ITEM, Kind.SET)]
    assert found.precision(sure) == pytest.approx(np.mean(said))
    probable = [row["posterior"] for row in rows if named(row)]
    assert found.probability(sure) == pytest.approx(np.mean(probable))
    assert found.coverage(sure) == pytest.approx(
        np.mean([named(row) and bool(row["right"]) for row in caused])
    )
    assert found.false_claims(sure) == pytest.approx(
        np.mean([named(row) and row["said"] == Kind.ITEM for row in uncaused])
    )
    recalls = []
    for kind in range(NOISE):
        of_kind = [row["kind"] == kind for row in clear if row["true_kind"] == kind]
        recalls.append(np.mean(of_kind))
        assert found.confusion()[kind].sum() == len(of_kind)
    assert found.kinds_right() == pytest.approx(np.mean(recalls))


def test_the_calibration_error_is_the_mean_distance_over_equal_bins() -> None:
    found = random_scores(1, 2_000)
    asked = (found.said == Kind.TASTE) & (found.confidence >= 0.5)
    pairs = sorted(zip(found.confidence[asked], found.posterior[asked], strict=True))
    gaps = [abs(sum(one - other for one, other in part)) for part in np.array_split(pairs, 10)]
    expected = sum(gaps) / len(pairs)
    assert found.calibration_error(Kind.TASTE) == pytest.approx(expected)


def test_a_rare_kind_needs_less_probability_to_be_the_kind(lesson: Lesson) -> None:
    calibrator = default_calibrator()
    beliefs = calibrator.believe(lesson.features)
    none = judge(beliefs, lesson.figures, sure=1.1)
    shares = torch.tensor([0.3, 0.3, 0.001, 0.4])
    found = Scores.of(lesson, beliefs, none, shares)
    each = zip(*(one.flatten(0, 1).tolist() for one in beliefs), strict=True)
    for kind, (items, sets, general) in zip(found.kind.tolist(), each, strict=True):
        probable = [sum(items), sum(sets), *general[:2]]
        compared = [one / share for one, share in zip(probable, shares.tolist(), strict=True)]
        assert compared[kind] == pytest.approx(max(compared), rel=1e-4)
    assert (found.kind != Scores.of(lesson, beliefs, none).kind).any()


def test_who_states_the_true_probabilities_is_calibrated_and_always_right(lesson: Lesson) -> None:
    examples = lesson.examples()
    c, p = (one.shape[2] for one in (examples.features.known_items, examples.features.known_sets))
    beliefs = Beliefs(*examples.truth.split((c, p, 3), dim=2))
    best, place = examples.truth[..., : c + p + 2].max(dim=2)
    bounds = torch.tensor([c, c + p, c + p + 1])
    kind = torch.bucketize(place, bounds, right=True)
    within = place - (kind == Kind.SET) * c
    judgement = Judgement(kind, kind, best, within.where(kind <= Kind.SET, 0), place * 0 - 1)
    found = Scores.of(lesson, beliefs, judgement)
    assert found.precision(0.7) == 1.0
    for one in (Kind.ITEM, Kind.POPULARITY):
        assert found.calibration_error(one) == pytest.approx(0, abs=1e-6)
    joined = Scores.joined([found, found])
    assert joined.coverage(0.7) == pytest.approx(found.coverage(0.7))


def test_the_former_rule_names_what_costs_most(lesson: Lesson) -> None:
    found = scores_of_former_rule(lesson)
    figures, features = lesson.figures, lesson.features
    users, k = lesson.targets.shape
    for user in range(users):
        for place in range(k):
            lost = figures.lost[:, user, place].mean(dim=0)
            lost[~features.known_items[user, place]] = -math.inf
            share = 1 - math.exp(-float(lost.max()))
            row = user * k + place
            assert (found.said[row] == Kind.ITEM) == (share > 0.05)
            if found.said[row] == Kind.ITEM:
                truth = lesson.truth.item[row][int(lost.argmax())]
                assert found.posterior[row] == pytest.approx(truth, abs=1e-6)


def test_the_ideal_recommender_says_only_what_is_so(world: CausalWorld) -> None:
    found = scores_of_ideal(world, users=60, k=5)
    cases = world.last_cases(60)
    likely = world.probabilities(cases)
    sure, caused = 0, 0
    for user in range(60):
        history = set(cases.items[cases.starts[user] : cases.ends[user]].tolist())
        unseen = [item for item in range(80) if item not in history]
        best = sorted(unseen, key=lambda item: (-likely[user, item], item))[:5]
        for place, item in enumerate(best):
            truth = world.truth(cases[np.array([user])], np.array([item]), 80)
            most = max(float(truth.item.max()), float(truth.pair[0]))
            others = truth.taste[0], truth.popularity[0], truth.noise[0]
            row = 5 * user + place
            assert found.confidence[row] == pytest.approx(max(most, *others))
            if most >= 0.6:
                caused += 1
                sure += most >= 0.9
    assert found.coverage(0.9) == pytest.approx(sure / caused)
    assert found.false_claims(0.9) == 0.0


def test_a_lesson_is_read_as_it_was_written(lesson: Lesson, tmp_path: Path) -> None:
    path = tmp_path / "lesson.safetensors"
    lesson.save(path)
    again = Lesson.load(path)
    assert torch.equal(again.examples().truth, lesson.examples().truth)
    for one in fields(Figures):
        assert torch.equal(getattr(again.figures, one.name), getattr(lesson.figures, one.name))
    assert all(values.isfinite().all() for values in load_file(path).values())


def test_true_probabilities_sum_to_one_and_keep_pairs_that_nobody_looks_at(lesson: Lesson) -> None:
    truth = lesson.truth_of_reasons()
    torch.testing.assert_close(truth.named.sum(dim=-1), torch.ones(lesson.targets.shape))
    pairs = truth.named[..., np.flatnonzero(truth.kinds == Kind.SET)].sum(dim=-1).flatten()
    torch.testing.assert_close(pairs, torch.from_numpy(lesson.truth.pair).float())


def test_some_models_of_a_lesson_show_their_own_figures(lesson: Lesson) -> None:
    (second,) = lesson.of_models([1]).figures.lost
    assert torch.equal(second, lesson.figures.lost[1])
    assert torch.equal(lesson.of_models([1]).figures.pairs, lesson.figures.pairs)
