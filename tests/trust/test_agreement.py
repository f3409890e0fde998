from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from conftest import lively_sasrec, ragged_batch
from whence.explainers import compare_batch
from whence.trust import agreement, spearman

rows = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=12)


@given(row=rows, padding=st.integers(0, 3))
def test_equals_scipys_with_ties_and_padding(row: list[tuple[int, int]], padding: int) -> None:
    one, two = np.array(row, dtype=np.float64).T
    blank = np.full(padding, 99.0)
    parts = np.array([[False] * padding + [True] * len(one)])
    found = spearman(
        np.concatenate((blank, one))[None], np.concatenate((blank[::-1], two))[None], parts
    )[0]
    if len(set(one)) < 2 or len(set(two)) < 2:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(stats.spearmanr(one, two).statistic, abs=1e-9)


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
    from dataclasses import replace

    turned = replace(found, scores=-found.scores)
    assert agreement(found, turned).value == pytest.approx(1.0)


def test_slices_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    one, two, parts = rng.random((20, 6)), rng.random((20, 6)), rng.random((20, 6)) < 0.8
    whole = spearman(one, two, parts)
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 3 * 36)
    np.testing.assert_array_equal(spearman(one, two, parts), whole)
