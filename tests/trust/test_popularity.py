"""Popularity of reasons, against loops and examples worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from conftest import lively_sasrec, ragged_batch
from whence.data import Split
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.explanation import Explanation
from whence.trust import popularity_bias, popularity_correlation, popularity_percentiles
from whence.trust.popularity import shares_of_top

BATCH = ragged_batch(25, 8, 30, seed=2)
ITEMS = BATCH.numpy()
COUNTS = np.random.default_rng(1).integers(0, 12, 30)


@pytest.fixture(scope="module")
def said() -> Explanation:
    return explain_batch(lively_sasrec(), BATCH, torch.arange(25), "leave-one-out")


def alike(said: Explanation, scores: np.ndarray) -> Explanation:
    return replace(said, scores=np.where(said.parts, scores, 0.0))


@pytest.mark.parametrize("k", [1, 3])
def test_equals_loops_over_cases_and_items(said: Explanation, k: int) -> None:
    percentile = [
        (sum(one > COUNTS) + sum(one == COUNTS) / 2) / len(COUNTS) for one in COUNTS.tolist()
    ]
    leads, taus = [], []
    for items, scores in zip(ITEMS.tolist(), said.scores.tolist(), strict=True):
        parts = [(score, percentile[item]) for item, score in zip(items, scores, strict=True)
                 if item >= 0]  # fmt: skip
        if len(parts) > k:
            top = sorted(parts, reverse=True)[:k]
            leads.append(np.mean([p for _, p in top]) - np.mean([p for _, p in parts]))
        if len(parts) > 1:
            taus.append(stats.kendalltau(*zip(*parts, strict=True)).statistic)
    bias, going = (
        popularity_bias(said, ITEMS, COUNTS, k),
        popularity_correlation(said, ITEMS, COUNTS),
    )
    assert bias.value == pytest.approx(np.mean(leads))
    assert bias.n == len(leads)
    taus = [tau for tau in taus if not np.isnan(tau)]
    assert going.value == pytest.approx(np.mean(taus))
    assert going.n == len(taus)


def test_worked_by_hand(said: Explanation) -> None:
    """Percentiles .125, .5, .5, .875 of four items; named first are those of .875 and .5."""
    items = np.array([[3, 0, 1, 2], [-1, 0, 3, 1]])
    one = replace(
        said[:2],
        parts=items >= 0,
        scores=np.array([[9.0, 1.0, 5.0, 4.0], [0.0, -7.0, 2.0, 3.0]]),
    )
    found = popularity_bias(one, items, np.array([1, 4, 4, 9]), k=2)
    assert found.value == pytest.approx(((0.875 + 0.5) / 2 - 0.5 + (0.875 + 0.5) / 2 - 0.5) / 2)
    assert "more than 2 parts" in found.protocol


def test_who_names_the_popular_is_found_out(said: Explanation) -> None:
    fame = popularity_percentiles(COUNTS)[ITEMS]
    most = popularity_bias(alike(said, fame), ITEMS, COUNTS)
    least = popularity_bias(alike(said, -fame), ITEMS, COUNTS)
    own = popularity_bias(said, ITEMS, COUNTS)
    assert least.interval[1] < 0 < most.interval[0]
    assert least.value < own.value < most.value
    assert popularity_correlation(alike(said, fame), ITEMS, COUNTS).value == pytest.approx(1)
    assert popularity_correlation(alike(said, -fame), ITEMS, COUNTS).value == pytest.approx(-1)


def test_who_calls_all_equal_or_throws_dice_has_no_bias(said: Explanation) -> None:
    same = popularity_bias(alike(said, np.ones(ITEMS.shape)), ITEMS, COUNTS)
    assert same.value == pytest.approx(0, abs=1e-12)
    rng = np.random.default_rng(0)
    thrown = [
        popularity_bias(alike(said, rng.random(ITEMS.shape)), ITEMS, COUNTS).value
        for _ in range(300)
    ]
    assert abs(np.mean(thrown)) < 4 * np.std(thrown) / 300**0.5


@given(
    values=st.lists(st.integers(0, 3), min_size=1, max_size=7), k=st.integers(1, 4), pads=st.data()
)
def test_the_top_is_the_mean_over_all_orders_of_equals(
    values: list[int], k: int, pads: st.DataObject
) -> None:
    parts = np.array(
        [pads.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))]
    )
    found = shares_of_top(np.array([values], dtype=float), parts, k)[0]
    there = [slot for slot in range(len(values)) if parts[0, slot]]
    assert found.sum() == pytest.approx(min(k, len(there)))
    rng = np.random.default_rng(0)
    drawn = np.zeros(len(values))
    for _ in range(200):
        order = sorted(there, key=lambda slot: (-values[slot], rng.random()))
        drawn[order[:k]] += 1 / 200
    np.testing.assert_allclose(found, drawn, atol=0.2)
    assert (found[~parts[0]] == 0).all()


def test_percentiles_are_those_of_scipy() -> None:
    expected = [stats.percentileofscore(COUNTS, one, "mean") / 100 for one in COUNTS]
    np.testing.assert_allclose(popularity_percentiles(COUNTS), expected)


def test_counts_are_of_training_alone(split: Split) -> None:
    counts = split.item_counts()
    own = np.zeros(split.interactions.item_count, dtype=int)
    for user, end in enumerate(split.train_ends.tolist()):
        for item in split.interactions.items[split.interactions.offsets[user] : end].tolist():
            own[item] += 1
    assert counts.tolist() == own.tolist()


def test_what_does_not_fit_is_said(said: Explanation) -> None:
    with pytest.raises(InputError, match="k must be at least 1, not 0"):
        popularity_bias(said, ITEMS, COUNTS, 0)
    with pytest.raises(InputError, match=r"shape \[25, 7\] and the explanation \[25, 8\]"):
        popularity_correlation(said, ITEMS[:, 1:], COUNTS)
    with pytest.raises(InputError, match="counts of items 0 to 4, and the explanation has items 0"):
        popularity_bias(said, ITEMS, COUNTS[:5])
    with pytest.raises(InputError, match="None of the 25 cases can be measured"):
        popularity_bias(said, ITEMS, COUNTS, 8)
