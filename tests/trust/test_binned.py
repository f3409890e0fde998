from __future__ import annotations

from statistics import fmean, median
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from whence.errors import InputError
from whence.measure import bootstrap_interval
from whence.trust import Bins, EqualMass, EqualWidth, JainBins
from whence.trust.bins import binned


def drawn_cases(cases: int, users: int, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.random(cases), rng.uniform(0.5, 1, cases), rng.integers(0, users, cases)


@given(
    st.lists(st.tuples(st.integers(50, 100), st.integers(0, 4)), min_size=1, max_size=30),
)
def test_equals_a_loop_over_tenths(drawn: list[tuple[int, int]]) -> None:
    """Exact whole numbers say which tenth a confidence is in; that of 1 is in the last."""
    sure = np.array([per_cent / 100 for per_cent, _ in drawn])
    users = np.array([user for _, user in drawn])
    found = binned(np.arange(len(drawn)) / 7, sure, JainBins(), users, protocol="changes")
    np.testing.assert_allclose(found.edges, [0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    for tenth in range(5, 10):
        rows = [row for row, (one, _) in enumerate(drawn) if min(one // 10, 9) == tenth]
        assert found.count[tenth - 5] == len(rows)
        assert found.users[tenth - 5] == len({drawn[row][1] for row in rows})
        if rows:
            inside = [row / 7 for row in rows]
            assert found.mean[tenth - 5] == pytest.approx(fmean(inside))
            assert found.place[tenth - 5] == pytest.approx(fmean(sure[rows]))
            np.testing.assert_allclose(found.quantiles[tenth - 5, 2], median(inside))
            quartiles = stats.mstats.mquantiles(inside, [0.25, 0.75], alphap=1, betap=1)
            np.testing.assert_allclose(found.quantiles[tenth - 5, [1, 3]], quartiles)
        else:
            for values in (found.mean, found.place, found.quantiles):
                assert np.isnan(values[tenth - 5]).all()
        known = not np.isnan(found.interval[tenth - 5]).any()
        assert known == (found.users[tenth - 5] >= 2), "one user says nothing of others"


def slow_interval(
    values: npt.NDArray[np.float64], users: npt.NDArray[np.int64], seed: int
) -> tuple[float, float]:
    """Users drawn one by one, with all their cases."""
    rng = np.random.default_rng(seed)
    names = np.unique(users)
    means = []
    for _ in range(1_000):
        rows = np.concatenate(
            [np.flatnonzero(users == one) for one in rng.choice(names, len(names))]
        )
        means.append(values[rows].mean())
    low, high = np.percentile(means, [2.5, 97.5])
    return low, high


def test_intervals_are_over_users() -> None:
    values, sure, users = drawn_cases(600, 20)
    values += users / 10  # so that the cases of a user have something in common
    found = binned(values, sure, EqualWidth(2), users, protocol="changes")
    upper = sure >= 0.5
    expected = slow_interval(values[upper], users[upper], 1)
    np.testing.assert_allclose(found.interval[1], expected, atol=0.06)
    alone = binned(values, sure, EqualWidth(2), protocol="changes")
    assert np.ptp(found.interval[1]) > 2 * np.ptp(alone.interval[1])
    np.testing.assert_allclose(alone.interval[1], bootstrap_interval(values[upper], 1), atol=0.01)


@pytest.mark.parametrize("bins", [EqualWidth(7), EqualMass(4), JainBins()], ids=type)
def test_every_case_is_in_one_bin(bins: Bins) -> None:
    values, sure, users = drawn_cases(500, 30)
    sure[:40] = 1.0
    found = binned(values, sure, bins, users, protocol="changes")
    assert found.count.sum() == 500
    assert np.nansum(found.count * found.mean) == pytest.approx(values.sum())
    some = found.users > 1
    low, high = found.interval[some].T
    assert ((low <= found.mean[some]) & (found.mean[some] <= high)).all()
    assert found.protocol == "changes; mean over 500 cases of 30 users"


def test_the_seed_decides_and_the_order_of_the_cases_does_not() -> None:
    values, sure, users = drawn_cases(300, 30)
    one, same, other = (
        binned(values, sure, JainBins(), users, protocol="", seed=seed).interval
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    turned = binned(values[::-1], sure[::-1], JainBins(), users[::-1], protocol="")
    np.testing.assert_allclose(turned.interval, one)


def test_what_has_no_value_is_left_out() -> None:
    values, sure = np.array([np.nan, 2.0, 4.0, np.nan]), np.array([0.55, 0.95, 0.97, np.nan])
    found = binned(values, sure, JainBins(), protocol="")
    assert found.count.tolist() == [0, 0, 0, 0, 2]
    assert found.mean[4] == 3
    none = binned(values[:1], sure[:1], JainBins(), protocol="")
    assert none.count.tolist() == [0] * 5
    assert np.isnan(none.mean).all()
    assert np.isnan(none.interval).all()


def test_bins_are_those_of_all_cases() -> None:
    """So that those of a kind and those of another are in the same bins."""
    values, sure, _ = drawn_cases(90, 1)
    kind = np.arange(90) < 20
    one, other = (
        binned(np.where(rows, values, np.nan), sure, EqualMass(3), protocol="")
        for rows in (kind, ~kind)
    )
    np.testing.assert_array_equal(one.edges, other.edges)
    assert (one.count + other.count).tolist() == [30, 30, 30]


def test_what_cannot_be_binned_is_refused() -> None:
    values = np.ones(3)
    with pytest.raises(InputError, match=r"not of shapes \[3\] and \[2\] and \[3\]"):
        binned(values, values[:2], JainBins(), protocol="")
    with pytest.raises(InputError, match="must be finite"):
        binned(values, np.array([0.5, np.nan, 1.0]), JainBins(), protocol="")
