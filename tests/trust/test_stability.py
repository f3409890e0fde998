from __future__ import annotations

import itertools
import math
import tracemalloc
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.arrays import Bools, Floats, Ints
from whence.contract import PAD
from whence.errors import InputError
from whence.measure import mean_over_seeds
from whence.trust import (
    MEASURES,
    SeedPairs,
    attention_kl,
    deviation,
    jaccard_distance,
    jaccard_index,
    overlap,
    prediction_deviation,
    prediction_difference,
)
from whence.trust.stability.seed_pairs import MOST_NATS, joined

SEED_MEASURES = {name: one.pairs for name, one in MEASURES.items() if one.pairs is not None}

FIGURE = np.array(
    [
        [[0.1, 0.05, 0.001, 0.5, 0.15, 0.05, 0.05, 0.02, 0.009, 0.07]],
        [[0.03, 0.1, 0.1, 0.12, 0.48, 0.05, 0.05, 0.008, 0.002, 0.06]],
    ]
)
"""Figure 4.3 of Jain 2019."""


def everywhere(importances: Floats) -> Bools:
    return np.ones(importances.shape[1:], dtype=np.bool_)


@st.composite
def importances(draw: st.DrawFn) -> tuple[Floats, Bools]:
    """Whole sizes, so that ties and zeros are common, with rubbish where there is no part."""
    seeds, cases, slots = (draw(st.integers(low, high)) for low, high in ((2, 5), (1, 4), (2, 12)))
    size = st.integers(0, 4)
    flat = draw(st.lists(size, min_size=seeds * cases * slots, max_size=seeds * cases * slots))
    is_part = draw(st.lists(st.booleans(), min_size=cases * slots, max_size=cases * slots))
    parts = np.array(is_part, dtype=np.bool_).reshape(cases, slots)
    parts[0, :2] = True
    values = np.array(flat, dtype=np.float64).reshape(seeds, cases, slots)
    return np.where(parts, values, -99.0), parts


def slow_kl(one: list[float], two: list[float]) -> float:
    p, q = ([size / sum(row) if sum(row) else 1 / len(row) for size in row] for row in (one, two))
    return sum(a * math.log((a + 1e-10) / (b + 1e-10)) for a, b in zip(p, q, strict=True))


def slow_index(one: list[float], two: list[float], fraction: float) -> float:
    count = math.ceil(fraction * len(one))
    first, second = (
        set(sorted(range(len(row)), key=lambda slot: -row[slot])[:count]) for row in (one, two)
    )
    return len(first & second) / len(first | second)


def test_the_papers_worked_example() -> None:
    """Figure 4.3: 0.66 nats apart, and yet the same top 20 %."""
    parts = everywhere(FIGURE)
    assert attention_kl(FIGURE, parts).measure().value == pytest.approx(0.6629, abs=5e-5)
    assert jaccard_distance(FIGURE, parts, 0.2).measure().value == 0
    assert jaccard_index(FIGURE, parts, 0.2).measure().value == 1
    assert jaccard_distance(FIGURE, parts, 0.1).measure().value == 100


def test_the_papers_listing() -> None:
    """Listing 4.1, where the second model's first place is shared: 100 whoever takes it."""
    both = np.array([[[0.2, 0.1, 0.1, 0.6]], [[0.4, 0.1, 0.4, 0.1]]])
    assert jaccard_distance(both, everywhere(both), 0.1).measure().value == 100


def test_the_top_is_not_one_too_many() -> None:
    """0.07 · 100 is 7.000000000000001 to a computer; the eighth part is another for each seed."""
    one = np.arange(100.0, 0.0, -1.0)
    two = np.concatenate((one[:7], one[:6:-1]))
    both = np.stack((one, two))[:, None]
    assert jaccard_index(both, everywhere(both), 0.07).measure().value == 1
    assert jaccard_index(both, everywhere(both), 0.08).measure().value < 1


def test_equals_in_size_count_in_slot_order() -> None:
    both = np.array([[[5.0, 5.0, 5.0, 1.0]], [[9.0, 1.0, 1.0, 1.0]]])
    assert jaccard_index(both, everywhere(both), 0.1).measure().value == 1
    assert jaccard_index(both[:, :, ::-1], everywhere(both), 0.1).measure().value == 0


@given(drawn=importances(), fraction=st.sampled_from([0.1, 0.2, 0.5, 1.0]))
def test_equals_loops_over_pairs_and_cases(drawn: tuple[Floats, Bools], fraction: float) -> None:
    values, parts = drawn
    distances: dict[int, float] = {}
    indices: dict[int, float] = {}
    for case in np.flatnonzero(parts.sum(axis=1) >= 2).tolist():
        rows = [row[case, parts[case]].tolist() for row in values]
        pairs = list(itertools.combinations(rows, 2))
        distances[case] = mean(slow_kl(one, two) for one, two in pairs)
        indices[case] = mean(slow_index(one, two, fraction) for one, two in pairs)
    for found, slow in (
        (attention_kl(values, parts), distances),
        (jaccard_index(values, parts, fraction), indices),
        (
            jaccard_distance(values, parts, fraction),
            {case: 100 * (1 - index) for case, index in indices.items()},
        ),
    ):
        expected = [slow.get(case, np.nan) for case in range(len(parts))]
        np.testing.assert_allclose(found.cases, expected, atol=1e-8)
        assert found.measure().value == pytest.approx(np.mean(list(slow.values())), abs=1e-8)
        assert found.measure().n == len(slow)


@given(
    lists=st.lists(
        st.lists(st.permutations(range(6)), min_size=3, max_size=3), min_size=2, max_size=5
    ),
    k=st.integers(1, 6),
)
def test_overlap_equals_sets(lists: list[list[list[int]]], k: int) -> None:
    asked: Ints = np.array(lists, dtype=np.int64)[:, :, :k]
    slow = [
        [len({*one[case]} & {*two[case]}) / k for one, two in itertools.combinations(asked, 2)]
        for case in range(3)
    ]
    np.testing.assert_allclose(overlap(asked).cases, np.mean(slow, axis=1))


def test_a_list_that_could_not_be_filled() -> None:
    """Only two items can be had in one case, of which the seeds share one; none in the other."""
    lists = np.array([[[4, 2, PAD], [PAD] * 3], [[4, 5, PAD], [PAD] * 3]])
    found = overlap(lists)
    np.testing.assert_array_equal(found.cases, [0.5, np.nan])
    assert found.measure().n == 1


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=2, max_size=6),
)
def test_predictions_equal_loops_over_seeds(drawn: list[list[float]]) -> None:
    predictions = np.array(drawn)
    by_case = list(zip(*drawn, strict=True))
    pairs = [mean(abs(a - b) for a, b in itertools.combinations(one, 2)) for one in by_case]
    found = prediction_difference(predictions)
    np.testing.assert_allclose(found.cases, pairs, atol=1e-12)
    assert found.measure().value == pytest.approx(np.mean(pairs), abs=1e-12)
    from_mean = [mean(abs(p - mean(one)) for p in one) for one in by_case]
    np.testing.assert_allclose(deviation(predictions), from_mean, atol=1e-12)
    assert prediction_deviation(predictions).value == pytest.approx(np.mean(from_mean), abs=1e-12)


def test_predictions_that_cannot_be() -> None:
    for wrong in (np.array([[0.5], [1.2]]), np.array([[0.5], [np.nan]]), np.ones(3)):
        for compute in (prediction_difference, deviation):
            with pytest.raises(InputError, match="probabilities"):
                compute(wrong)
    with pytest.raises(InputError, match="at least 2 seeds, not 1"):
        prediction_deviation(np.ones((1, 4)))


@given(drawn=importances(), cut=st.integers(1, 3))
def test_pieces_joined_are_the_whole(drawn: tuple[Floats, Bools], cut: int) -> None:
    values, parts = drawn
    parts[:, :2] = True
    values = np.abs(values)
    whole = attention_kl(values, parts)
    pieces = [
        attention_kl(values[:, rows], parts[rows])
        for rows in (slice(cut), slice(cut, None))
        if len(parts[rows])
    ]
    np.testing.assert_allclose(joined(pieces).cases, whole.cases, atol=1e-12)
    np.testing.assert_allclose(joined(pieces).pairs, whole.pairs, atol=1e-12)


@given(drawn=importances(), filled=st.floats(0, 9), left=st.integers(0, 3))
def test_padding_has_no_influence(drawn: tuple[Floats, Bools], filled: float, left: int) -> None:
    values, parts = drawn
    wider = np.pad(
        np.where(parts, values, filled), ((0, 0), (0, 0), (left, 2)), constant_values=filled
    )
    there = np.pad(parts, ((0, 0), (left, 2)))
    for compute in (attention_kl, jaccard_index, jaccard_distance):
        np.testing.assert_allclose(
            compute(wider, there).pairs, compute(values, parts).pairs, atol=1e-12
        )


@given(drawn=importances(), seed=st.integers(0, 99))
def test_the_order_of_the_seeds_is_nothing_to_sets(drawn: tuple[Floats, Bools], seed: int) -> None:
    values, parts = drawn
    order = np.random.default_rng(seed).permutation(len(values))
    lists = np.argsort(values, axis=2)
    for one, two in (
        (jaccard_index(values, parts), jaccard_index(values[order], parts)),
        (jaccard_distance(values, parts), jaccard_distance(values[order], parts)),
        (overlap(lists), overlap(lists[order])),
    ):
        np.testing.assert_allclose(one.cases, two.cases)
        np.testing.assert_allclose(
            np.array(one.pairs + one.pairs.T)[np.ix_(order, order)], two.pairs + two.pairs.T
        )


def test_kl_goes_from_the_earlier_seed_to_the_later() -> None:
    """One direction, as in the paper; the other is longer in its example."""
    back = attention_kl(FIGURE[::-1], everywhere(FIGURE)).measure().value
    assert back == pytest.approx(slow_kl(FIGURE[1, 0].tolist(), FIGURE[0, 0].tolist()))
    assert back == pytest.approx(0.861, abs=5e-4)


def test_strangers_are_as_far_apart_as_can_be() -> None:
    apart = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    assert attention_kl(apart, everywhere(apart)).measure().value == pytest.approx(MOST_NATS)


def test_only_shares_count() -> None:
    """Attention that does not sum to 1 is renormalised, seed by seed and case by case."""
    parts = everywhere(FIGURE)
    scaled = FIGURE * np.array([7.0, 0.01])[:, None, None]
    np.testing.assert_allclose(attention_kl(scaled, parts).cases, attention_kl(FIGURE, parts).cases)


def by_hand(values: Floats) -> SeedPairs:
    return SeedPairs(np.zeros(1), np.triu(values, 1), "by hand", "neither", (0.0, 1.0))


@pytest.mark.parametrize("seeds", [3, 4, 10])
def test_pseudo_values_are_the_jackknifes(seeds: int) -> None:
    values = np.random.default_rng(seeds).random((seeds, seeds))

    def mean_over_pairs_of(kept: list[int]) -> float:
        return float(np.mean([values[pair] for pair in itertools.combinations(kept, 2)]))

    everyone = list(range(seeds))
    theta = mean_over_pairs_of(everyone)
    without = [mean_over_pairs_of([one for one in everyone if one != k]) for k in everyone]
    pseudo = by_hand(values).over_seeds()
    np.testing.assert_allclose(
        pseudo, [seeds * theta - (seeds - 1) * one for one in without], atol=1e-12
    )
    assert np.mean(pseudo) == pytest.approx(theta, abs=1e-12)
    error = math.sqrt((seeds - 1) / seeds * np.sum((np.array(without) - np.mean(without)) ** 2))
    found = mean_over_seeds(pseudo)
    assert found.spread / math.sqrt(seeds) == pytest.approx(error)
    t = {3: 4.3027, 4: 3.1824, 10: 2.2622}[seeds]
    assert (found.interval[1] - found.interval[0]) / 2 == pytest.approx(t * error, rel=1e-4)


def test_slices_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    values, parts = rng.random((4, 20, 6)), rng.random((20, 6)) < 0.8
    lists = np.argsort(values, axis=2)[:, :, :3]
    given_to = {"overlap": (lists,), "prediction-difference": (values[:, :, 0],)}
    whole = {
        name: compute(*given_to.get(name, (values, parts)))
        for name, compute in SEED_MEASURES.items()
    }
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 3 * 4 * 4 * 9)
    for name, compute in SEED_MEASURES.items():
        found = compute(*given_to.get(name, (values, parts)))
        np.testing.assert_array_equal(found.cases, whole[name].cases)
        np.testing.assert_allclose(found.pairs, whole[name].pairs)


def test_memory_does_not_grow_with_the_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seeds on 20,000 cases: less than the importances themselves."""
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 100_000)
    values = np.random.default_rng(0).random((10, 20_000, 20))
    parts = everywhere(values)
    for compute in (attention_kl, jaccard_index):
        tracemalloc.start()
        compute(values, parts)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < values.nbytes / 2


def test_what_cannot_be_compared_is_refused() -> None:
    parts = everywhere(FIGURE)
    with pytest.raises(InputError, match="not negative"):
        attention_kl(-FIGURE, parts)
    with pytest.raises(InputError, match="not negative"):
        jaccard_index(FIGURE * np.nan, parts)
    with pytest.raises(InputError, match="above 0 and at most 1, not 0"):
        jaccard_distance(FIGURE, parts, 0)
    with pytest.raises(InputError, match=r"not \[2, 1, 10\] and \[1, 9\]"):
        attention_kl(FIGURE, parts[:, 1:])
    with pytest.raises(InputError, match=r"not \[3, 4\]"):
        overlap(np.zeros((3, 4), dtype=np.int64))
    with pytest.raises(InputError, match="can be compared"):
        attention_kl(FIGURE, np.eye(10, dtype=np.bool_)[:1])
