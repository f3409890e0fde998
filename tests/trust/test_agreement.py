from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from conftest import lively_sasrec, ragged_batch
from whence.arrays import Bools, Floats
from whence.errors import InputError
from whence.explainers import compare_batch
from whence.trust import kendall, kendall_agreement, mu_log, spearman
from whence.trust.agreement.rank_agreement import agreement, centred_ranks, correlate

Coefficient = Callable[[Floats, Floats, Bools], Floats]
PEERS: dict[Coefficient, Any] = {spearman: stats.spearmanr, kendall: stats.kendalltau}

rows = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=12)


@pytest.mark.parametrize("coefficient", list(PEERS))
@given(row=rows, padding=st.integers(0, 3))
def test_equals_scipys_with_ties_and_padding(
    coefficient: Coefficient, row: list[tuple[int, int]], padding: int
) -> None:
    one, two = np.array(row, dtype=np.float64).T
    blank = np.full(padding, 99.0)
    parts = np.array([[False] * padding + [True] * len(one)])
    found = coefficient(
        np.concatenate((blank, one))[None], np.concatenate((blank[::-1], two))[None], parts
    )[0]
    if len(set(one)) < 2 or len(set(two)) < 2:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(PEERS[coefficient](one, two).statistic, abs=1e-9)


@given(row=rows, padding=st.integers(0, 3))
def test_ranks_that_are_centred_correlate_like_scipys(
    row: list[tuple[int, int]], padding: int
) -> None:
    """Ranked once, whoever they are compared with; nothing where there is no part."""
    parts = np.array([[True] * len(row) + [False] * padding])
    both = np.pad(np.array(row, dtype=np.float64).T, ((0, 0), (0, padding)), constant_values=9)
    one, two = (centred_ranks(values[None], parts) for values in both)
    for found, values in ((one, both[0]), (two, both[1])):
        expected = stats.rankdata(values[: len(row)]) - (len(row) + 1) / 2
        np.testing.assert_allclose(found[0], [*expected, *[0] * padding])
    rho = correlate(one, two)[0]
    if one.any() and two.any():
        reference = stats.spearmanr(both[0][: len(row)], both[1][: len(row)]).statistic
        assert rho == pytest.approx(reference, abs=1e-9)
    else:
        assert np.isnan(rho)


def test_a_method_agrees_with_itself_and_both_ways() -> None:
    model, batch, targets = lively_sasrec(), ragged_batch(20, 8, 30), torch.arange(20)
    found = compare_batch(model, batch, targets, ["rollout", "leave-one-out", "random"])
    assert agreement(found["rollout"], found["rollout"]).value == pytest.approx(1.0)
    there = agreement(found["rollout"], found["leave-one-out"])
    back = agreement(found["leave-one-out"], found["rollout"])
    assert there == back
    assert there.interval[0] < there.value < there.interval[1]
    assert there.direction == "neither"


def test_agreement_is_about_size_not_sign() -> None:
    model, batch, targets = lively_sasrec(), ragged_batch(20, 8, 30), torch.arange(20)
    found = compare_batch(model, batch, targets, ["leave-one-out"])["leave-one-out"]
    turned = replace(found, scores=-found.scores)
    assert agreement(found, turned).value == pytest.approx(1.0)
    assert agreement(found, turned, signed=True).value == pytest.approx(-1.0)
    assert kendall_agreement(found, turned).value == pytest.approx(1.0)
    assert kendall_agreement(found, turned, signed=True).value == pytest.approx(-1.0)
    assert "signed" in agreement(found, turned, signed=True).protocol
    assert "signed" not in agreement(found, turned).protocol


def test_signed_a_method_without_a_sign_speaks_for_every_part() -> None:
    model, batch, targets = lively_sasrec(), ragged_batch(20, 8, 30), torch.arange(20)
    found = compare_batch(model, batch, targets, ["leave-one-out", "rollout"])
    left_out, rollout = found.values()
    turned = replace(rollout, scores=-rollout.scores)
    there = agreement(left_out, rollout, signed=True)
    assert agreement(left_out, turned, signed=True) == there
    expected = [
        stats.spearmanr(one[parts], two[parts]).statistic
        for one, two, parts in zip(left_out.scores, rollout.scores, rollout.parts, strict=True)
        if parts.sum() > 1
    ]
    assert there.value == pytest.approx(np.mean(expected))
    assert there.n == len(expected)


@given(row=rows)
def test_tau_is_what_the_pairs_say(row: list[tuple[int, int]]) -> None:
    """Counted one by one, where neither side ties."""
    one, two = np.array(sorted(set(row)), dtype=np.float64).T
    one, two = one + np.arange(len(one)) / 99, two + np.arange(len(two)) / 99
    said = [(one[i] < one[j]) == (two[i] < two[j]) for i, j in combinations(range(len(one)), 2)]
    found = kendall(one[None], two[None], np.ones((1, len(one)), dtype=np.bool_))[0]
    assert not said or found == pytest.approx(2 * np.mean(said) - 1)


@pytest.mark.parametrize("coefficient", [spearman, kendall])
def test_slices_do_not_matter(coefficient: Coefficient, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    one, two, parts = rng.random((20, 6)), rng.random((20, 6)), rng.random((20, 6)) < 0.8
    whole = coefficient(one, two, parts)
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 3 * 36)
    np.testing.assert_array_equal(coefficient(one, two, parts), whole)


@pytest.mark.parametrize("coefficient", [spearman, kendall, mu_log])
def test_memory_does_not_grow_with_the_pairs(
    coefficient: Coefficient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pairs of the parts of all cases would take eight times as much as the importances."""
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 100_000)
    one, two = np.random.default_rng(0).random((2, 10_000, 64))
    parts = np.ones(one.shape, dtype=np.bool_)
    tracemalloc.start()
    coefficient(one, two, parts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * one.nbytes


def test_no_cases_have_no_coefficients() -> None:
    for coefficient in (spearman, kendall, mu_log):
        nothing = np.zeros((0, 5))
        assert coefficient(nothing, nothing, nothing > 0).shape == (0,)


@pytest.mark.parametrize("coefficient", [spearman, kendall, mu_log])
def test_what_cannot_be_compared_is_refused(coefficient: Coefficient) -> None:
    one, parts = np.ones((2, 3)), np.ones((2, 3), dtype=np.bool_)
    with pytest.raises(InputError, match=r"not \[2, 3\] and \[2, 2\] and \[2, 3\]"):
        coefficient(one, one[:, 1:], parts)
    with pytest.raises(InputError, match="NaN or infinite"):
        coefficient(one, one * np.nan, parts)
    assert np.isnan(coefficient(one, one * np.nan, ~parts)).all(), "without a part, whatever it is"
