"""Calibration, permutation and stability of classes as measurements, item by item."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import optimize, stats

import whence
from conftest import lively, ncf_layout
from whence.contract import HasAttentions, HasClasses
from whence.data import Interactions, Split
from whence.data.published_negatives import published_negatives
from whence.data.splits import split_by
from whence.errors import CapabilityError, InputError
from whence.models import Recommender
from whence.models.deepicf import Layered
from whence.randomness import Randomness
from whence.run import Run
from whence.trust import jaccard_index, prediction_deviation
from whence.trust.permutation.class_permutation import class_permutation
from whence_studies.cache import StudyCache
from whence_studies.measurements import calibration_by_class as calibration
from whence_studies.measurements import permutation_by_class as permutation
from whence_studies.measurements import stability_by_class as stability
from whence_studies.measurements.between_seeds import deviation_over_seeds, random_jaccard_index
from whence_studies.measurements.candidates import UserSample, draw_questions, validation_questions
from whence_studies.measurements.measurement import MeasuredRun, SeedColumn
from whence_studies.measurements.registry import MEASUREMENTS
from whence_studies.runner import run_study
from whence_studies.study import find_study

Case = tuple[int, int, list[float]]
"""A user, the true class and the probability of each class."""
LENGTH = 12
EVERYBODY = UserSample(100)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Interactions:
    return ncf_layout(tmp_path, monkeypatch)


@pytest.fixture
def asked(data: Interactions) -> Callable[..., MeasuredRun]:
    def train(model: str = "deepicf-a", split: str = "last-one", **settings: object) -> MeasuredRun:
        run = whence.train(
            data,
            model=model,
            model_settings={"max_len": LENGTH, "dim": 8, **settings},
            training={"epochs": 2},
            seeds=3,
            split=split,
            show_progress=False,
        )
        return MeasuredRun(_lively(run), split_by(split, data), "test", show_progress=False)

    return train


def _lively(run: Run) -> Run:
    """With weights so large that confidences are spread out, and not so large that all are 1."""
    models = {
        seed: lively(model, Randomness(seed).torch("init")) for seed, model in run.models.items()
    }
    for model in models.values():
        if isinstance(model, Layered):
            model.last.weight.data *= 0.05
            model.last.bias.data[0] -= 3  # most is not liked, and so a temperature is best
    return replace(run, models=models)


def cases_of(model: Recommender, asked: MeasuredRun) -> list[Case]:
    """Every user's item and negatives but those that are the item, one after another."""
    cases, ratings = asked.split.held["test"], asked.split.interactions.ratings
    assert ratings is not None
    negatives = published_negatives(asked.split.interactions).of(cases)
    found: list[Case] = []
    for user in range(len(cases)):
        batch = model.read(cases[user : user + 1], LENGTH)
        came = int(cases.targets[user])
        for place, item in enumerate([came, *negatives[user].tolist()]):
            if place and item == came:
                continue
            with torch.no_grad():
                assert isinstance(model, HasClasses)
                p = model.classes(batch, torch.tensor([[item]]))[0, 0].double().softmax(dim=0)
            disliked = len(p) == 3 and ratings[cases.ends[user]] <= 2
            true = 1 if place else 2 if disliked else 0
            found.append((user, true, p.tolist()))
    return found


def slow_calibration(cases: list[Case]) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind, some in {
        "positives": [case for case in cases if case[1] == 0],
        "negatives": [case for case in cases if case[1] != 0],
        "all": cases,
    }.items():
        sure = [max(p) for _, _, p in some]
        right = [p.index(max(p)) == true for _, true, p in some]
        found[f"confidence minus accuracy, {kind}"] = float(np.mean(sure) - np.mean(right))
        for tenth in range(3, 10):
            rows = [
                one
                for one, p in zip(right, sure, strict=True)
                if tenth / 10 <= p < (tenth + 1) / 10 or (tenth == 9 and p == 1)
            ]
            if rows:
                column = f"accuracy of {kind}, confidence {tenth / 10:.1f}–{(tenth + 1) / 10:.1f}"
                found[column] = sum(rows) / (len(rows) + 1e-5)
    found["negative log-likelihood"] = float(np.mean([-math.log(p[true]) for _, true, p in cases]))
    squares = [sum((one - (c == true)) ** 2 for c, one in enumerate(p)) for _, true, p in cases]
    found["Brier score"] = float(np.mean(squares))
    return found


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("deepicf-a", {"n_classes": 1}),
        ("deepicf-a", {"n_classes": 2}),
        ("deepicf-a", {"n_classes": 3}),
        ("gmf", {}),
    ],
)
def test_calibration_over_every_item(
    name: str, settings: dict[str, int], asked: Callable[..., MeasuredRun]
) -> None:
    what = asked(name, **settings)
    found = calibration.class_calibration(what, EVERYBODY)
    assert set(found) <= set(calibration.MEASUREMENT.all_columns)
    slow = [slow_calibration(cases_of(model, what)) for model in what.run.models.values()]
    compared = 0
    for column in slow[0]:
        if all(column in one for one in slow):
            expected = [one[column] for one in slow]
            assert found[column].per_seed == pytest.approx(expected, abs=1e-5), column
            compared += 1
        else:
            assert column not in found, "a bin that is empty for a seed"
    assert compared >= 8
    assert found["ECE"].n == 4 * 100 - 1, "one item is among its own negatives"
    assert "4 users, test events" in found["ECE"].protocol


def test_the_temperature_is_fitted_on_every_other_user(asked: Callable[..., MeasuredRun]) -> None:
    what = asked(n_classes=2)
    found = calibration.class_calibration(what, EVERYBODY)
    for place, model in enumerate(what.run.models.values()):
        cases = cases_of(model, what)

        halves = [[case for case in cases if case[0] % 2 == half] for half in range(2)]
        expect_scaled(found, place, *halves)
    assert "fitted on every other of these users" in found["temperature"].protocol


def expect_scaled(
    found: dict[str, SeedColumn], place: int, fitted: list[Case], others: list[Case]
) -> None:
    """A seed's temperature as scipy finds it on some cases, and what it makes of others."""
    best = optimize.minimize_scalar(
        lambda log_t: surprise(fitted, log_t), bounds=(-5, 8), method="bounded"
    ).x
    assert found["temperature"].per_seed[place] == pytest.approx(math.exp(best), rel=1e-3)
    for when, log_t in (("before", 0.0), ("after", best)):
        column = found[f"negative log-likelihood, {when} scaling"]
        assert column.per_seed[place] == pytest.approx(surprise(others, log_t), rel=1e-3)
        assert column.n == len(others)


def surprise(cases: list[Case], log_t: float) -> float:
    """The mean of −ln p of the true class with all logits divided by a temperature."""
    scaled = [(np.log(p) / math.exp(log_t), true) for _, true, p in cases]
    return float(np.mean([np.logaddexp.reduce(one) - one[true] for one, true in scaled]))


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_the_temperature_is_fitted_on_validation_events(
    classes: int, asked: Callable[..., MeasuredRun]
) -> None:
    what = asked(split="last-two", n_classes=classes)
    found = calibration.class_calibration(what, EVERYBODY)
    for place, model in enumerate(what.run.models.values()):
        test = cases_of(model, what)
        expect_scaled(found, place, validation_cases(model, what.split), test)
        before = found["ECE, before scaling"].per_seed[place]
        assert before == found["ECE"].per_seed[place], "of all users"
    assert "on 4 validation events" in found["temperature"].protocol
    assert "evaluated on all test events" in found["temperature"].protocol


def validation_cases(model: Recommender, split: Split) -> list[Case]:
    """The last item but one of every user, and negatives that it has not met until then."""
    data = split.interactions
    assert data.ratings is not None
    negatives = validation_questions(split, EVERYBODY).items[:, 1:]
    assert negatives.shape == (4, 99)
    published = published_negatives(data).of(split.held["test"])
    assert not (np.sort(negatives, axis=1) == np.sort(published, axis=1)).all(axis=1).any()
    found: list[Case] = []
    for user in range(data.user_count):
        start, end = data.offsets[user : user + 2].tolist()
        events = data.items[start:end].tolist()
        batch = model.read(split.held["validation"][user : user + 1], LENGTH)
        assert batch[0, -1] == events[-3], "what came before"
        for place, item in enumerate([events[-2], *negatives[user].tolist()]):
            assert place == 0 or item not in events[:-2], "which training knows of"
            if place and item == events[-2]:
                continue
            with torch.no_grad():
                assert isinstance(model, HasClasses)
                p = model.classes(batch, torch.tensor([[item]]))[0, 0].double().softmax(dim=0)
            disliked = len(p) == 3 and data.ratings[end - 2] <= 2
            found.append((user, 1 if place else 2 if disliked else 0, p.tolist()))
    return found


@pytest.mark.parametrize("classes", [2, 3])
def test_permutation_by_kind_and_confidence(
    classes: int, asked: Callable[..., MeasuredRun]
) -> None:
    what = asked(n_classes=classes)
    how = permutation.ShuffleOptions(100, shuffles=5)
    found = permutation.class_permutations(what, how)
    assert set(found) <= set(permutation.MEASUREMENT.all_columns)
    questions = draw_questions(what.split, "test", how)
    for place, model in enumerate(what.run.models.values()):
        permuted = class_permutation(model, *questions.of(model), repeats=5)
        changes: dict[str, list[tuple[float, float]]] = {}
        cases = iter(cases_of(model, what))
        for user, items in enumerate(questions.items):
            for number, item in enumerate(items):
                if number and item == items[0]:
                    continue
                _, true, p = next(cases)
                one = max(p), permuted.change[user, number]
                changes.setdefault("all", []).append(one)
                if (true == 0) != (p.index(max(p)) == 0):
                    kind = "false negatives" if true == 0 else "false positives"
                    changes.setdefault(kind, []).append(one)
        for kind, some in changes.items():
            if f"|Δp|, {kind}" not in found:
                continue
            sure, moved = map(np.array, zip(*some, strict=True))
            assert found[f"|Δp|, {kind}"].per_seed[place] == pytest.approx(moved.mean())
            top = moved[sure >= 0.9]
            column = f"|Δp|, {kind}, confidence 0.9–1.0"
            if column in found:
                assert found[column].per_seed[place] == pytest.approx(top.mean())
        sure, moved = map(np.array, zip(*changes["all"], strict=True))
        rho = stats.spearmanr(sure, moved).statistic
        column = "ρ(|Δp|, confidence), all"
        assert found[column].per_seed[place] == pytest.approx(rho, abs=1e-3)
    assert any("attention decile" in column for column in found)


def test_stability_by_tenths(asked: Callable[..., MeasuredRun]) -> None:
    what = asked(n_classes=2)
    models = list(what.run.models.values())
    found = stability.class_stabilities(what, EVERYBODY)
    assert set(found) <= set(stability.MEASUREMENT.all_columns)
    came = [[p[0] for p in _of_what_came(model, what)] for model in models]
    mean = np.mean(came, axis=0)
    cases = what.split.held["test"]
    targets = torch.from_numpy(cases.targets)
    sizes = []
    for model in models:
        with torch.no_grad():
            assert isinstance(model, HasAttentions)
            sizes.append(model.attentions(model.read(cases, LENGTH), targets)[0][:, 0, 0].numpy())
    tops = [[set(np.argsort(-row, kind="stable")[:2]) for row in seed] for seed in sizes]
    index = np.mean(
        [
            [len(a & b) / len(a | b) for a, b in zip(one, two, strict=True)]
            for one, two in combinations(tops, 2)
        ],
        axis=0,
    )
    assert np.mean(found["Jaccard index"].per_seed) == pytest.approx(index.mean())
    assert found["Jaccard index"].n == 4
    for tenth in range(10):
        rows = np.flatnonzero((10 * mean).astype(int) == tenth)
        column = f"p {tenth / 10:.1f}–{(tenth + 1) / 10:.1f}"
        assert (f"KL, {column}" in found) == bool(len(rows))
        if len(rows):
            ours = found[f"Jaccard index, {column}"]
            assert ours.n == len(rows)
            assert np.mean(ours.per_seed) == pytest.approx(index[rows].mean())
            expected = deviation_over_seeds(np.array(came)[:, rows])
            ours = found[f"deviation of predictions, {column}"]
            assert ours.per_seed == pytest.approx(expected, abs=1e-6)


def _of_what_came(model: Recommender, asked: MeasuredRun) -> list[list[float]]:
    first: dict[int, list[float]] = {}
    for user, _, p in cases_of(model, asked):
        first.setdefault(user, p)
    return list(first.values())


def test_pseudo_values_of_the_deviation() -> None:
    """Of three seeds: S·θ − (S−1)·θ₍₋ₖ₎, worked out, about the mean that is printed."""
    p = np.array([[0.1], [0.2], [0.6]])
    every = (0.2 + 0.1 + 0.3) / 3
    values = [3 * every - 2 * one for one in (0.2, 0.25, 0.05)]
    expected = [one - np.mean(values) + every for one in values]
    assert deviation_over_seeds(p) == pytest.approx(expected)
    assert np.mean(deviation_over_seeds(p)) == pytest.approx(prediction_deviation(p).value)
    with pytest.raises(InputError, match="needs at least 3 seeds"):
        deviation_over_seeds(p[:2])
    same = np.tile([0.1, 0.9], (4, 1))
    assert deviation_over_seeds(same) == pytest.approx([0.0] * 4)


def test_the_random_jaccard_index_equals_a_simulation() -> None:
    lengths = np.array([2, 7, 10, 11, 35, 35])
    parts = np.arange(35) < lengths[:, None]
    drawn = np.random.default_rng(0).random((40, len(lengths), 35))
    assert random_jaccard_index(lengths) == pytest.approx(
        np.mean(jaccard_index(drawn, parts).cases), abs=0.02
    )
    assert random_jaccard_index(np.array([2])) == pytest.approx(1 / 2), (
        "one of two, the same or not"
    )
    # Two of eleven: both in common 1 / 55, one 2 · 9 / 55 and then a third of the union.
    assert random_jaccard_index(np.array([11])) == pytest.approx(1 / 55 + 18 / 55 / 3)


def test_the_published_jaccard_index() -> None:
    """“Around 0.5” for positive predictions with high confidence (Section 3.4.4)."""
    study = find_study("collaborative-stability")
    printed = {
        (column, cell.variant): text
        for column in MEASUREMENTS["class-stability"].all_columns
        for cell in study.cells()
        if (text := study.published_text(column, cell)) is not None
    }
    assert printed == {("Jaccard index, p 0.9–1.0", "two classes"): "0.5"}


def test_users_are_drawn_once_for_all_models(asked: Callable[..., MeasuredRun]) -> None:
    what = asked(n_classes=2)
    one, other = (draw_questions(what.split, "test", UserSample(3)) for _ in range(2))
    assert len(one.cases) == 3
    assert len(set(one.cases.users.tolist())) == 3
    assert (one.items == other.items).all()
    with pytest.raises(InputError, match="users must be at least 2, not 1"):
        UserSample(1)


def test_missing_capabilities_raise(asked: Callable[..., MeasuredRun]) -> None:
    with pytest.raises(CapabilityError, match="GMF has no 'attentions'"):
        permutation.class_permutations(asked("gmf"), permutation.ShuffleOptions(4, shuffles=2))
    with pytest.raises(CapabilityError, match="SASRec has no 'classes'"):
        calibration.class_calibration(asked("sasrec"), EVERYBODY)


COLLABORATIVE = (
    "collaborative-calibration",
    "collaborative-temperature",
    "collaborative-permutation",
    "collaborative-stability",
)


@pytest.mark.parametrize("name", COLLABORATIVE)
def test_the_studies_run_from_end_to_end(name: str, data: Interactions, tmp_path: Path) -> None:
    """With fewer seeds, epochs and shuffles."""
    assert data.user_count == 4
    declared = find_study(name)
    small = {"max_len": LENGTH, "dim": 8}
    study = replace(
        declared,
        seeds=3,
        training={**declared.training, "epochs": 1},
        models={
            model: replace(one, settings=small, training={"epochs": 1})
            for model, one in declared.models.items()
        },
        variants={variant: replace(one, training={}) for variant, one in declared.variants.items()},
        measuring={"class-permutation": {"shuffles": 2}} if "perm" in name else declared.measuring,
    )
    records = run_study(study, cache=StudyCache(tmp_path / "cache"), show_progress=False)
    known = {(one.model, one.row) for one in records if one.value is not None}
    assert {study.record_key(cell)[1:] for cell in study.cells()} <= known
    assert not any(one.value is not None and math.isnan(one.value) for one in records)
    if name.endswith(("calibration", "temperature")):
        scaled = {one.protocol for one in records if one.column == "temperature" and one.value}
        on = "4 validation events" if "temperature" in name else "every other of these users"
        assert scaled
        assert all(on in protocol for protocol in scaled)
