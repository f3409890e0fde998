"""Weights of models that recommend together make the validation events most likely."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from whence.contract import ALL
from whence.data import Split
from whence.models import fitted_model
from whence.training import blending
from whence.training.blending import ValidationScores, calibrate

NAMES = ("last-item", "ease")


@pytest.fixture(scope="module")
def validation(split: Split) -> ValidationScores:
    few = {**split.held, "validation": split.held["validation"][:60]}
    return ValidationScores(replace(split, held=few))


@pytest.fixture(scope="module")
def scores(validation: ValidationScores, split: Split) -> list[Tensor]:
    return [validation.of(fitted_model(name, {}, split)) for name in NAMES]


def surprise(validation: ValidationScores, scores: list[Tensor], factors: list[float]) -> float:
    """The mean −log p of the next items, case by case and without what the user has seen."""
    cases, found = validation.cases, []
    for row in range(len(cases)):
        seen = cases.items[cases.starts[row] : cases.ends[row]]
        target = int(cases.targets[row])
        total = np.zeros(scores[0].shape[1])
        for factor, one in zip(factors, scores, strict=True):
            total += factor * one[row].double().numpy()
        left = [item for item in range(len(total)) if item == target or item not in seen]
        p = np.exp(total[left]) / np.exp(total[left]).sum()
        found.append(-np.log(p[left.index(target)]))
    return float(np.mean(found))


def test_scores_are_relative_to_the_next_item(
    validation: ValidationScores, scores: list[Tensor], split: Split
) -> None:
    model, cases = fitted_model("ease", {}, split), validation.cases
    for row in range(5):
        read = torch.from_numpy(cases[row : row + 1].histories(50))
        own = model.score(read, ALL)[0]
        torch.testing.assert_close(scores[1][row], own - own[cases.targets[row]])


def test_the_gradient_is_that_of_finite_differences(
    validation: ValidationScores, scores: list[Tensor]
) -> None:
    doubles = [one.double() for one in scores]
    at, step = np.array([0.7, 2.0]), 1e-5
    value, gradient = validation._surprise(doubles, at)
    assert value == pytest.approx(surprise(validation, scores, at.tolist()), abs=1e-6)
    for place in range(2):
        one, other = at.copy(), at.copy()
        one[place] += step
        other[place] -= step
        risen = validation._surprise(doubles, one)[0] - validation._surprise(doubles, other)[0]
        assert gradient[place] == pytest.approx(risen / (2 * step), rel=1e-4)


def test_temperatures_make_the_next_items_most_likely(
    validation: ValidationScores, scores: list[Tensor]
) -> None:
    for one, found in zip(scores, validation.fit_weights(scores), strict=True):
        best = minimize_scalar(
            lambda log, one=one: surprise(validation, [one], [np.exp(-log)]),
            bounds=(-5, 5),
            method="bounded",
        )
        assert found.temperature == pytest.approx(np.exp(best.x), rel=0.02)
    (alone,) = validation.fit_weights(scores[:1])
    assert alone.weight == pytest.approx(1, rel=1e-3)


def test_no_other_weights_make_them_more_likely(
    validation: ValidationScores, scores: list[Tensor]
) -> None:
    found = [one.factor for one in validation.fit_weights(scores)]
    assert min(found) > 0
    least = surprise(validation, scores, found)
    grid = [
        surprise(validation, scores, [found[0] * one, found[1] * other])
        for one in (0, 0.5, 0.8, 0.95, 1, 1.05, 1.2, 2)
        for other in (0, 0.5, 0.8, 0.95, 1, 1.05, 1.2, 2)
    ]
    assert least <= min(grid) + 1e-6
    assert least < min(surprise(validation, scores, [*pair]) for pair in ((1, 0), (0, 1)))


def test_models_without_information_get_no_weight(split: Split) -> None:
    """By luck, one of forty random models is clearly better than none."""
    every = ValidationScores(split)
    good, other = (every.of(fitted_model(name, {}, split)) for name in NAMES)
    lucky = 0
    for seed in range(12):
        noise = torch.randn(good.shape, generator=torch.Generator().manual_seed(seed))
        noise -= noise.gather(1, every.targets)
        weights = every.fit_weights([good, noise, torch.zeros_like(noise), -other])
        assert weights[0].weight == pytest.approx(1, rel=0.02)
        assert [one.weight for one in weights[2:]] == [0, 0]
        lucky += weights[1].weight > 0
    assert lucky <= 1


def test_gains_are_those_of_fitting_the_others_anew(
    validation: ValidationScores, split: Split
) -> None:
    names = ("last-item", "ease", "recent-ease", "popularity")
    each = [validation.of(fitted_model(name, {}, split)) for name in names]
    factors = validation._most_likely(each)
    whole = validation._surprise(each, factors)[0]
    for place, gain in enumerate(validation._gains(each, factors)):
        others = [one for n, one in enumerate(each) if n != place]
        without = validation._surprise(others, validation._most_likely(others))[0]
        lost = len(validation.cases) * (without - whole)
        assert gain == pytest.approx(lost, rel=0.4, abs=0.3), names[place]


def test_a_noisy_copy_gets_no_weight(split: Split) -> None:
    """What follows is drawn by the first model, so that the copy brings nothing."""
    every = ValidationScores(split)
    generator = torch.Generator().manual_seed(0)
    kept = 0
    for _ in range(20):
        noise = torch.randn(2, len(every.cases), split.interactions.item_count, generator=generator)
        true = 1.5 * noise[0]
        true[every.seen] = -20.0
        every.targets = true.softmax(dim=1).multinomial(1, generator=generator)
        both = [one - one.gather(1, every.targets) for one in (true, true + noise[1])]
        kept += every.fit_weights(both)[1].weight > 0
    assert kept <= 2


def test_seen_items_have_no_say(validation: ValidationScores, scores: list[Tensor]) -> None:
    """They cannot be recommended, so a model may score them as it likes."""
    loud = [one.clone() for one in scores]
    for one in loud:
        one[validation.seen] = 1000.0
    row, item = validation.seen
    assert len(row) > 500
    for case in range(10):
        kept = set(item[row == case].tolist())
        history = validation.cases.items[
            validation.cases.starts[case] : validation.cases.ends[case]
        ]
        assert kept == set(history.tolist()) - {int(validation.cases.targets[case])}
    factors = np.array([1.0, 3.0])
    assert validation._surprise(loud, factors)[0] == pytest.approx(
        validation._surprise(scores, factors)[0]
    )
    np.testing.assert_allclose(
        validation._surprise(loud, factors)[1], validation._surprise(scores, factors)[1], rtol=1e-5
    )


def test_large_data_are_drawn_from(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    items = split.interactions.item_count
    monkeypatch.setattr(blending, "SCORES", 40 * items)
    one, again = (ValidationScores(split) for _ in range(2))
    assert len(one.cases) == 40
    assert one.cases.users.tolist() == again.cases.users.tolist()
    assert len(set(one.cases.users.tolist())) == 40


@pytest.mark.parametrize("name", ["ease", "recent-ease", "item-to-item"])
def test_the_scores_of_a_trained_sum_are_logits(name: str, split: Split) -> None:
    """Its temperature is 1, and the order of the items is that of the sum."""
    plain = fitted_model(name, {}, split)
    model = fitted_model(name, {}, split)
    calibrate(model, split)
    every = ValidationScores(split)
    assert every.temperature(every.of(model)) == pytest.approx(1, rel=1e-3)
    ratio = every.of(model) / every.of(plain)
    known = ratio[ratio.isfinite()]
    torch.testing.assert_close(known, known[:1].expand_as(known), rtol=0.05, atol=0)
    assert known[0] == pytest.approx(1 / every.temperature(every.of(plain)), rel=0.05)


def test_with_few_events_the_sum_stays_as_it_is(split: Split) -> None:
    few = replace(split, held={**split.held, "validation": split.held["validation"][:99]})
    model = fitted_model("ease", {}, few)
    before = model.state_dict()["terms.values"].clone()
    for without in (few, replace(split, held={"test": split.held["test"]})):
        calibrate(model, without)
        assert torch.equal(before, model.state_dict()["terms.values"])
    calibrate(model, split)
    assert not torch.equal(before, model.state_dict()["terms.values"])
