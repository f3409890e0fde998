from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from conftest import NO_MODEL, lively_bert4rec, lively_sasrec, ragged_batch
from whence.arrays import Floats
from whence.contract import PAD, All, Explainable
from whence.errors import CapabilityError, InputError
from whence.explainers import compare_batch, explain_batch
from whence.explainers.sampling import draw_design
from whence.explanation import Explanation
from whence.trust import coalition_values, value_correlation, value_fit

SMALL = 0.7
"""What nothing is worth to `Additive`."""


class Additive(Explainable):
    """A target's score is `SMALL` and what each item present is worth to it."""

    removal = "not counted"

    def __init__(self, worth: torch.Tensor) -> None:
        self.worth = worth  # [items, targets]

    def parts(self, batch: torch.Tensor) -> torch.Tensor:
        return batch != PAD

    def score(
        self,
        batch: torch.Tensor,
        targets: torch.Tensor | All,
        *,
        present: torch.Tensor | None = None,
        embedded: torch.Tensor | None = None,
        attention: Sequence[torch.Tensor | None] | None = None,
    ) -> torch.Tensor:
        there = self.parts(batch) if present is None else self.parts(batch) & present
        scores = SMALL + (self.worth[batch.clamp(min=0)] * there[:, :, None]).sum(dim=1)
        return scores if isinstance(targets, All) else scores.gather(1, targets)


@pytest.fixture
def additive() -> Additive:
    return Additive(torch.from_numpy(np.random.default_rng(0).normal(size=(30, 10))))


def by_hand(model: Explainable, batch: torch.Tensor, told: Explanation) -> tuple[Floats, Floats]:
    """Correlation and R² over all coalitions of every case, one at a time, with the kernel."""
    correlation, fit = np.full((2, len(batch)), np.nan)
    for case, history in enumerate(batch):
        slots = np.flatnonzero(history.numpy() != PAD)
        n = len(slots)
        true, expected, weights = [], [], []
        for chosen in product([False, True], repeat=n):
            s = sum(chosen)
            if 0 < s < n:
                present = torch.zeros(1, len(history), dtype=torch.bool)
                present[0, slots] = torch.tensor(chosen)
                target = torch.tensor([[told.target[case]]])
                true.append(model.score(history[None], target, present=present).item())
                expected.append(told.scores[case][present[0].numpy()].sum())
                weights.append((n - 1) / (math.comb(n, s) * s * (n - s)))
        if n > 1:
            together = np.cov(true, expected, aweights=weights)
            correlation[case] = together[0, 1] / math.sqrt(together[0, 0] * together[1, 1])
            missed = (np.array(true) - expected - told.empty_score[case]) ** 2
            spread = (np.array(true) - np.average(true, weights=weights)) ** 2
            fit[case] = 1 - np.average(missed, weights=weights) / np.average(
                spread, weights=weights
            )
    return correlation, fit


@torch.no_grad()
def test_equals_every_coalition_by_hand() -> None:
    """Histories of one to seven items, of which all 126 coalitions may be asked."""
    model, batch, targets = lively_sasrec(length=7), ragged_batch(12, 7, 30), torch.arange(12)
    batch[-1, :-1] = PAD
    values = coalition_values(model, batch, targets, 126)
    told = compare_batch(model, batch, targets, ["shapley", "rollout"])
    correlation, fit = by_hand(model, batch, told["shapley"])
    assert np.flatnonzero(np.isnan(correlation)).tolist() == [11], "that of one item"
    np.testing.assert_allclose(values.correlation(told["shapley"]), correlation, atol=1e-9)
    np.testing.assert_allclose(values.fit(told["shapley"]), fit, atol=1e-9)
    np.testing.assert_allclose(
        values.correlation(told["rollout"]), by_hand(model, batch, told["rollout"])[0], atol=1e-9
    )
    measure = value_correlation(told["shapley"], values)
    assert measure.value == pytest.approx(np.nanmean(correlation))
    assert measure.n == np.count_nonzero(~np.isnan(correlation))
    assert measure.protocol.endswith("at most 126 coalitions; removal: attention-column")
    assert value_fit(told["shapley"], values).value == pytest.approx(np.nanmean(fit))


@torch.no_grad()
def test_drawn_coalitions_say_what_all_of_them_would() -> None:
    model, batch, targets = lively_bert4rec(length=11), ragged_batch(8, 10, 30), torch.arange(8)
    told = explain_batch(model, batch, targets, "shapley")
    every = coalition_values(model, batch, targets, 2**10)
    some = coalition_values(model, batch, targets, 900)
    assert max(len(one.coalitions) for one in every.scored) == 2**10 - 2
    assert max(len(one.coalitions) for one in some.scored) == 900
    np.testing.assert_allclose(some.correlation(told), every.correlation(told), atol=0.03)
    np.testing.assert_allclose(some.fit(told), every.fit(told), atol=0.06)


@pytest.mark.parametrize("coalitions", [4, 64])
def test_what_adds_up_is_foretold_exactly(additive: Additive, coalitions: int) -> None:
    batch, targets = ragged_batch(40, 12, 30), torch.arange(40) % 10
    values = coalition_values(additive, batch, targets, coalitions)
    told = compare_batch(additive, batch, targets, ["leave-one-out", "random"])
    exact, chance = told.values()
    assert value_correlation(exact, values).value == pytest.approx(1.0, abs=1e-12)
    assert value_fit(exact, values).value == pytest.approx(1.0, abs=1e-12)
    turned = replace(exact, scores=-exact.scores)
    assert value_correlation(turned, values).value == pytest.approx(-1.0, abs=1e-12)
    assert abs(value_correlation(chance, values).value) < 0.5


def test_shapley_foretells_more_than_chance() -> None:
    model, batch, targets = lively_sasrec(length=12), ragged_batch(30, 12, 30), torch.arange(30)
    values = coalition_values(model, batch, targets, 100)
    told = compare_batch(model, batch, targets, ["shapley", "random"])
    found = {name: value_correlation(one, values) for name, one in told.items()}
    assert found["random"].interval[1] < found["shapley"].interval[0]


def test_no_importances_that_add_up_fit_better_than_shapleys() -> None:
    """Over all coalitions, weighted by the kernel: that is what makes them his."""
    model, batch, targets = lively_sasrec(), ragged_batch(20, 8, 30), torch.arange(20)
    values = coalition_values(model, batch, targets, 254)
    told = explain_batch(model, batch, targets, "shapley")
    best, several = values.fit(told), told.parts.sum(axis=1) > 1
    rng = np.random.default_rng(0)
    for _ in range(5):
        noise = np.where(told.parts, rng.normal(size=told.scores.shape), 0.0)
        mean = noise.sum(axis=1, keepdims=True) / told.parts.sum(axis=1, keepdims=True)
        adding_up = told.scores + 0.1 * np.where(told.parts, noise - mean, 0.0)
        other = values.fit(replace(told, scores=adding_up))
        assert (other[several] < best[several]).all()


def test_coalitions_are_not_those_an_explainer_of_the_seed_has_seen() -> None:
    model, batch, targets = lively_sasrec(length=12), ragged_batch(1, 12, 30), torch.arange(1)
    (scored,) = coalition_values(model, batch, targets, 64, seed=5).scored
    seen = draw_design(12, 64, "paired", 5).coalitions.numpy()
    assert scored.coalitions.shape == seen.shape
    assert (scored.coalitions != seen).mean() > 0.3
    sizes = scored.coalitions.sum(axis=1)
    assert sizes.min() >= 1
    assert sizes.max() <= 11


def test_a_case_is_the_same_alone_and_whatever_memory_there_is() -> None:
    model, batch, targets = lively_sasrec(length=12), ragged_batch(20, 12, 30), torch.arange(20)
    told = explain_batch(model, batch, targets, "shapley:coalitions=64,exact_up_to=0")
    found = coalition_values(model, batch, targets, 40).correlation(told)
    little = coalition_values(model, batch, targets, 40, memory=2**18)
    assert len(little.scored) > len(np.unique((batch >= 0).sum(dim=1).numpy()))
    np.testing.assert_allclose(little.correlation(told), found)
    alone = [
        coalition_values(model, batch[[row]], targets[[row]], 40).correlation(told[row])[0]
        for row in range(20)
    ]
    np.testing.assert_allclose(alone, found)
    again = coalition_values(model, batch, targets, 40).correlation(told)
    np.testing.assert_array_equal(again, found)
    other = coalition_values(model, batch, targets, 40, seed=1).correlation(told)
    assert not np.allclose(other, found, equal_nan=True)


def test_where_nothing_varies_there_is_no_correlation(additive: Additive) -> None:
    batch, targets = ragged_batch(6, 5, 30), torch.zeros(6, dtype=torch.int64)
    told = explain_batch(additive, batch, targets, "leave-one-out")
    values = coalition_values(additive, batch, targets, 16)
    silent = replace(told, scores=np.zeros_like(told.scores))
    assert np.isnan(values.correlation(silent)).all()
    constant = Additive(torch.zeros(30, 10))
    values = coalition_values(constant, batch, targets, 16)
    assert np.isnan(values.correlation(told)).all()
    told = explain_batch(constant, batch, targets, "leave-one-out")
    assert np.isnan(values.fit(told)).all()
    with pytest.raises(InputError, match="None of the 6 cases can be measured"):
        value_fit(told, values)


def test_what_cannot_be_foretold_is_refused(additive: Additive) -> None:
    model, batch, targets = lively_sasrec(), ragged_batch(6, 8, 30), torch.arange(6)
    values = coalition_values(model, batch, targets, 16)
    told = compare_batch(model, batch, targets, ["rollout", "shapley"])
    with pytest.raises(InputError, match="by 'rollout' do not add up"):
        value_fit(told["rollout"], values)
    with pytest.raises(InputError, match="different cases"):
        value_correlation(told["shapley"][0], values)
    other = explain_batch(model, batch, targets + 1, "shapley")
    with pytest.raises(InputError, match="different cases"):
        value_correlation(other, values)
    with pytest.raises(InputError, match="coalitions must be at least 4, not 3"):
        coalition_values(model, batch, targets, 3)
    with pytest.raises(InputError, match="There is no target 99"):
        coalition_values(model, batch, torch.full((6,), 99), 16)
    with pytest.raises(CapabilityError, match="which the measure of coalition values needs"):
        coalition_values(NO_MODEL, batch, targets)


@pytest.mark.needs("cuda")
def test_on_a_gpu() -> None:
    model, batch, targets = lively_sasrec(length=12), ragged_batch(20, 12, 30), torch.arange(20)
    told = explain_batch(model, batch, targets, "shapley")
    here = coalition_values(model, batch, targets, 64).correlation(told)
    there = coalition_values(model.cuda(), batch, targets, 64).correlation(told)
    np.testing.assert_allclose(there, here, rtol=1e-6)
