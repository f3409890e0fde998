from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from whence.errors import InputError
from whence.trust import signed_rank


@given(
    differences=st.lists(st.integers(-4, 6), min_size=51, max_size=120).filter(any),
    seed=st.integers(0, 9),
)
def test_equals_scipys(differences: list[int], seed: int) -> None:
    """With ties and zeros, in whole numbers, so that all differences are exact."""
    second = np.random.default_rng(seed).integers(0, 99, len(differences)).astype(np.float64)
    first = second + differences
    found = signed_rank(first, second)
    expected = stats.wilcoxon(first, second, alternative="less")
    assert found.statistic == expected.statistic
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert 10**found.log10_p == pytest.approx(expected.pvalue, rel=1e-9)
    assert found.n == np.count_nonzero(differences)


def test_the_approximation_has_the_mean_and_spread_of_all_signs() -> None:
    """Every way to give signs to the ranks of 3, 1, 1, 2, 5, 1, 2: none is likelier."""
    size = np.array([3.0, 1.0, 1.0, 2.0, 5.0, 1.0, 2.0])
    signs = np.array([-1, 1, -1, -1, -1, 1, 1])
    ranks = stats.rankdata(size)
    sums = [ranks[np.array(chosen)].sum() for chosen in product([False, True], repeat=7)]
    statistic = ranks[signs > 0].sum()
    z = (statistic - np.mean(sums)) / np.std(sums)
    found = signed_rank(size * signs, np.zeros(7))
    assert found.statistic == statistic
    assert found.p == pytest.approx(0.5 * math.erfc(-z / math.sqrt(2)))


def test_a_thousand_cases_of_one_sign() -> None:
    """The smallest p that as many cases as the paper's can have."""
    smaller = np.random.default_rng(0).random(1_000)
    found = signed_rank(smaller, smaller + np.arange(1, 1_001))
    assert found.p == pytest.approx(1.7e-165, rel=0.03)
    assert found.log10_p == pytest.approx(math.log10(found.p), abs=1e-9)
    assert found.statistic == 0
    other = signed_rank(smaller + np.arange(1, 1_001), smaller)
    assert other.p == pytest.approx(1.0)


def test_the_logarithm_goes_on_where_p_is_too_small_for_a_float() -> None:
    """log Φ(z) ≈ −z²/2 − log(−z·√2π) − 1/z², and z ≈ −√(3n)/2."""
    n = 10_000
    found = signed_rank(np.zeros(n), np.arange(1.0, n + 1))
    assert found.p == 0.0
    z = n * (n + 1) / 4 / math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    expected = -(z**2) / 2 - math.log(z * math.sqrt(2 * math.pi)) - 1 / z**2
    assert found.log10_p == pytest.approx(expected / math.log(10), rel=1e-9)
    assert found.log10_p < -1_000


def test_pairs_that_say_nothing_are_left_out() -> None:
    first = np.array([1.0, 2.0, np.nan, 3.0, 0.5, np.nan])
    second = np.array([2.0, 2.0, 1.0, 5.0, 0.1, np.nan])
    some = np.array([0, 3, 4])
    assert signed_rank(first, second) == signed_rank(first[some], second[some])
    assert signed_rank(first, second).n == 3


def test_what_cannot_be_tested_is_refused() -> None:
    with pytest.raises(InputError, match="a pair whose values differ"):
        signed_rank(np.ones(5), np.ones(5))
    with pytest.raises(InputError, match=r"not \[5\] and \[4\]"):
        signed_rank(np.ones(5), np.ones(4))
