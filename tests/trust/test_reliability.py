from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from whence.errors import InputError
from whence.trust import (
    Bins,
    EqualMass,
    EqualWidth,
    JainBins,
    Predictions,
    predictions_of,
    reliability,
)

ALL_BINS = [EqualWidth(7), EqualMass(7), JainBins(3)]


def random_predictions(cases: int = 200, classes: int = 3, seed: int = 0) -> Predictions:
    rng = np.random.default_rng(seed)
    return predictions_of(
        rng.dirichlet(np.ones(classes), cases), rng.integers(0, classes, cases, dtype=np.int64)
    )


def of_two(sure: list[float], right: list[bool]) -> Predictions:
    """Two classes, the first predicted with these confidences from .5 on."""
    first = np.array(sure)
    return predictions_of(np.stack((first, 1 - first), axis=1), 1 - np.array(right, dtype=np.int64))


def test_a_worked_example() -> None:
    """As by hand: .55 right, .62 wrong, .68 right, .97 right, .99 wrong."""
    found = reliability(
        of_two([0.55, 0.62, 0.68, 0.97, 0.99], [True, False, True, True, False]), EqualWidth(10)
    )
    np.testing.assert_allclose(found.edges, np.arange(11) / 10)
    assert found.count.tolist() == [0, 0, 0, 0, 0, 1, 2, 0, 0, 2]
    np.testing.assert_allclose(found.accuracy[[5, 6, 9]], [1, 0.5, 0.5])
    np.testing.assert_allclose(found.confidence[[5, 6, 9]], [0.55, 0.65, 0.98])
    empty = found.count == 0
    for values in (found.accuracy, found.confidence, found.expected, *found.interval.T):
        assert np.isnan(values[empty]).all(), "an empty bin has no accuracy"
        assert np.isfinite(values[~empty]).all()
    assert found.error() == pytest.approx((1 * 0.45 + 2 * 0.15 + 2 * 0.48) / 5)
    assert found.worst() == pytest.approx(0.48)


@pytest.mark.parametrize("bins", [EqualWidth(10), EqualMass(3), JainBins()], ids=type)
def test_certainty_is_in_the_last_bin(bins: Bins) -> None:
    found = reliability(of_two([0.5, 0.7, 0.96, 1.0, 1.0], [True] * 5), bins)
    assert found.edges[-1] == 1
    assert found.count.sum() == 5
    assert found.count[-1] == (2 if isinstance(bins, EqualMass) else 3)


def jain_by_hand(sure: list[float], right: list[bool]) -> tuple[dict[int, float], float]:
    """Tenth by tenth as the code of Jain (2019), with exact fractions for the number of a tenth."""
    hits: dict[int, list[bool]] = {}
    for confidence, one in zip(sure, right, strict=True):
        hits.setdefault(int(Fraction(str(confidence)) / Fraction("0.1")), []).append(one)
    accuracy = {tenth: sum(some) / (len(some) + 1e-5) for tenth, some in hits.items()}
    gaps = {tenth: abs(accuracy[tenth] - (tenth / 10 + 0.05)) for tenth in hits}
    return accuracy, sum(len(hits[tenth]) * gaps[tenth] for tenth in hits) / len(sure)


@given(
    st.lists(st.tuples(st.integers(50, 99), st.booleans()), min_size=1, max_size=30),
)
def test_jains_variant(drawn: list[tuple[int, bool]]) -> None:
    sure, right = [per_cent / 100 for per_cent, _ in drawn], [one for _, one in drawn]
    found = reliability(of_two(sure, right), JainBins())
    np.testing.assert_allclose(found.edges, [0.5, 0.6, 0.7, 0.8, 0.9, 1])
    accuracy, error = jain_by_hand(sure, right)
    for tenth in range(5, 10):
        if tenth in accuracy:
            assert found.accuracy[tenth - 5] == pytest.approx(accuracy[tenth], rel=1e-12)
            assert found.expected[tenth - 5] == pytest.approx(tenth / 10 + 0.05)
        else:
            assert np.isnan(found.accuracy[tenth - 5])
    assert found.error() == pytest.approx(error)


def test_jain_holds_positives_and_negatives_apart() -> None:
    """Of three positives two are taken for negatives; both negatives are found."""
    probabilities = np.array([[0.3, 0.7], [0.9, 0.1], [0.62, 0.38], [0.85, 0.15], [0.55, 0.45]])
    predictions = predictions_of(probabilities, np.array([1, 1, 1, 0, 0]))
    negative, positive = (reliability(predictions.for_class(one), JainBins()) for one in (0, 1))
    assert positive.count.tolist() == [0, 1, 1, 0, 1]
    np.testing.assert_allclose(positive.accuracy[[1, 2, 4]], [0, 1 / (1 + 1e-5), 0])
    assert negative.count.tolist() == [1, 0, 0, 1, 0]
    np.testing.assert_allclose(negative.accuracy[[0, 3]], 1 / (1 + 1e-5))
    assert "true class 1 alone" in positive.protocol
    with pytest.raises(InputError, match="numbered 0 to 1; there is no 2"):
        predictions.for_class(2)


@pytest.mark.parametrize("bins", ALL_BINS, ids=type)
def test_a_class_that_is_absent_has_empty_bins(bins: Bins) -> None:
    predictions = predictions_of(np.full((4, 3), 1 / 3), np.array([0, 0, 1, 1]))
    found = reliability(predictions.for_class(2), bins)
    assert not found.count.any()
    assert np.isnan(found.accuracy).all()
    for error in (found.error, found.worst):
        with pytest.raises(InputError, match=r"^Calibration needs at least one case;"):
            error()


def test_tenths_begin_where_a_confidence_can() -> None:
    assert JainBins(2).edges(np.zeros(0))[0] == 0.5
    assert JainBins(3).edges(np.zeros(0))[0] == 0.3
    assert JainBins(1000).edges(np.zeros(0))[0] == 0


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(1, 12))
def test_bins_of_equally_many_cases(hundredths: list[int], count: int) -> None:
    sure = np.sort(0.5 + np.array(hundredths) / 100)
    found = reliability(of_two(sure.tolist(), [True] * len(sure)), EqualMass(count))
    assert (found.count > 0).all()
    assert found.count.sum() == len(sure)
    assert len(found.count) <= count
    np.testing.assert_array_equal(found.edges[[0, -1]], sure[[0, -1]])
    inside = [
        (low <= sure) & ((sure <= high) if last else (sure < high))
        for low, high, last in zip(
            found.edges[:-1],
            found.edges[1:],
            [False] * (len(found.count) - 1) + [True],
            strict=True,
        )
    ]
    np.testing.assert_array_equal([some.sum() for some in inside], found.count)
    if len(set(hundredths)) == len(hundredths):
        assert len(found.count) == min(count, len(sure))
        assert np.ptp(found.count) <= 1, "where all differ, sizes do by one at most"


@given(st.integers(1, 50), st.data())
def test_intervals_are_wilsons(count: int, data: st.DataObject) -> None:
    correct = data.draw(st.integers(0, count))
    found = reliability(
        of_two([0.75] * count, [True] * correct + [False] * (count - correct)), EqualWidth(1)
    )
    expected = stats.binomtest(correct, count).proportion_ci(method="wilson")
    np.testing.assert_allclose(found.interval[0], [expected.low, expected.high], atol=1e-12)


@pytest.mark.parametrize("bins", ALL_BINS, ids=type)
def test_the_order_of_the_cases_does_not_matter(bins: Bins) -> None:
    predictions = random_predictions()
    one = reliability(predictions, bins)
    other = reliability(predictions[np.random.default_rng(1).permutation(200)], bins)
    for name in ("edges", "count", "confidence", "accuracy", "interval"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_what_is_left_of_probabilities() -> None:
    rng = np.random.default_rng(0)
    probabilities, true = rng.dirichlet(np.ones(4), 50), rng.integers(0, 4, 50)
    found = predictions_of(probabilities, true)
    for case in range(50):
        p = probabilities[case]
        assert found.confidence[case] == max(p)
        assert found.correct[case] == (list(p).index(max(p)) == true[case])
        assert found.log_likelihood[case] == pytest.approx(np.log(p[true[case]]))
        y = np.eye(4)[true[case]]
        assert found.squares[case] == pytest.approx(sum((p - y) ** 2))
    np.testing.assert_array_equal(found.true, true)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64])
def test_takes_arrays_and_tensors_of_any_precision(
    kind: type[np.floating[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(5), 40).astype(kind)
    true = rng.integers(0, 5, 40).astype(np.int32)
    probabilities.flags.writeable = False
    whole = predictions_of(probabilities, true)
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 3 * 5)
    before = torch.tensor(probabilities, requires_grad=True)
    sliced = predictions_of(before, torch.tensor(true))
    assert torch.equal(before, torch.tensor(probabilities)), "left as it was"
    for name in ("confidence", "correct", "true", "log_likelihood", "squares"):
        np.testing.assert_array_equal(getattr(sliced, name), getattr(whole, name))


HALVES = np.full((2, 2), 0.5)


@pytest.mark.parametrize(
    ("probabilities", "true", "said"),
    [
        (np.array([[0.5, 0.5], [0.5, 0.4]]), [0, 1], "a sum of 0.9"),
        (np.array([[0.5, 0.5], [1.1, -0.1]]), [0, 1], "a minimum of -0.1"),
        (np.array([[0.5, 0.5], [np.nan, 0.5]]), [0, 1], "not be negative"),
        (HALVES, [0, 2], "numbered 0 to 1; there is no 2"),
        (HALVES, [-1, 0], "numbered 0 to 1; there is no -1"),
        (HALVES, [0.0, 1.0], "whole numbers"),
        (HALVES, [0, 1, 1], r"shapes \[2, 2\] and \[3\]"),
        (np.zeros((0, 2)), np.zeros(0, dtype=np.int64), "at least one case"),
        (np.zeros(2), [0, 1], r"shapes \[2\] and \[2\]"),
    ],
)
def test_what_cannot_be_used_is_refused(
    probabilities: npt.NDArray[np.float64], true: list[float], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        predictions_of(probabilities, np.array(true))


def test_there_is_at_least_one_bin() -> None:
    for bins in (EqualWidth, EqualMass):
        with pytest.raises(InputError, match="at least 1, not 0"):
            bins(0)
