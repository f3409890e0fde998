"""Claims, against scipy and against examples worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from scipy import stats

from whence_studies.claims import (
    FAILS,
    HOLDS,
    PRINT_OUTSIDE,
    UNDECIDED,
    claim_protocol,
    claim_verdict,
    compare_sides,
    judge_claim,
    over_seeds,
    spread_ratio,
)
from whence_studies.declared_claims import Claim, ClaimSide, Expectation


def claim(expect: Expectation, margin: float = 0.0) -> Claim:
    return Claim(
        text="t",
        source="s",
        column="c",
        of=ClaimSide("new"),
        than=ClaimSide("old"),
        expect=expect,
        margin=margin,
    )


def test_a_difference_is_that_of_pairs() -> None:
    rng = np.random.default_rng(0)
    old = rng.normal(0.6, 0.1, 10)
    new = old + rng.normal(0.02, 0.01, 10)
    found = compare_sides(claim("higher"), new.tolist(), old.tolist())
    reference = stats.ttest_rel(new, old).confidence_interval(0.95)
    assert found.value == pytest.approx((new - old).mean())
    assert found.spread == pytest.approx((new - old).std(ddof=1))
    assert found.interval == pytest.approx((reference.low, reference.high))


def test_differences_by_hand() -> None:
    """Differences 1, 2, 3: mean 2, standard deviation 1, t 4.303 with 2 degrees of freedom."""
    found = compare_sides(claim("higher"), [2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert found.value == 2
    assert found.interval == pytest.approx((2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5), abs=1e-3)
    assert claim_verdict(claim("higher"), found.interval) == UNDECIDED


def test_the_interval_of_a_spread_ratio_matches_pearson() -> None:
    """At its ends, sum and difference of the scaled pairs are correlated with p = 0.05."""
    rng = np.random.default_rng(1)
    old = rng.normal(0, 1, 10)
    new = 0.3 * old + rng.normal(0, 0.3, 10)
    found = spread_ratio(new.tolist(), old.tolist())
    assert found.value == pytest.approx(new.std(ddof=1) / old.std(ddof=1))
    assert found.interval is not None
    for end in found.interval:
        scaled = new / end
        assert stats.pearsonr(scaled + old, scaled - old).pvalue == pytest.approx(0.05)


def test_the_interval_of_a_spread_ratio_covers_95_percent() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(1000):
        shared, own = rng.normal(0, 1, 10), rng.normal(0, 1, 10)
        new, old = 0.5 * (0.6 * shared + 0.8 * own), shared
        interval = spread_ratio(new.tolist(), old.tolist()).interval
        assert interval is not None
        covered += interval[0] <= 0.5 <= interval[1]
    assert 0.93 < covered / 1000 < 0.97


@pytest.mark.parametrize(
    ("expect", "margin", "below", "across", "above"),
    [
        ("higher", 0.0, FAILS, UNDECIDED, HOLDS),
        ("not higher", 0.0, HOLDS, UNDECIDED, FAILS),
        ("lower", 0.0, HOLDS, UNDECIDED, FAILS),
        ("not lower", 0.0, FAILS, UNDECIDED, HOLDS),
        ("higher", 0.3, FAILS, FAILS, UNDECIDED),
        ("not higher", 0.3, HOLDS, HOLDS, UNDECIDED),
        ("lower", 0.3, UNDECIDED, FAILS, FAILS),
        ("not lower", 0.3, UNDECIDED, HOLDS, HOLDS),
        ("spread lower", 0.0, HOLDS, HOLDS, HOLDS),
    ],
)
def test_only_a_whole_interval_decides(
    expect: Expectation, margin: float, below: str, across: str, above: str
) -> None:
    judged = claim(expect, margin)
    intervals = (-0.4, -0.1), (-0.1, 0.1), (0.1, 0.4)
    assert [claim_verdict(judged, one) for one in intervals] == [below, across, above]
    assert claim_verdict(judged, None) == UNDECIDED


def test_a_ratio_is_compared_with_1() -> None:
    judged = claim("spread lower")
    found = [claim_verdict(judged, one) for one in ((0.2, 0.9), (0.5, 1.2), (1.1, 2.0))]
    assert found == [HOLDS, UNDECIDED, FAILS]


def test_too_few_seeds_decide_nothing() -> None:
    assert over_seeds([]) == (None, None, None)
    assert over_seeds([0.5]) == (0.5, None, None)
    assert spread_ratio([1.0, 2.0], [1.0, 3.0]) == (None, None, None)
    assert spread_ratio([1.0, 1.0, 1.0], [1.0, 3.0, 2.0]) == (None, None, None)


def test_perfectly_correlated_values_have_an_exact_ratio() -> None:
    old = [0.1, 0.7, 0.3, 0.45]
    found = spread_ratio([0.3 * one + 1 for one in old], old)
    assert found.interval == pytest.approx((0.3, 0.3), abs=1e-6)


def test_every_expectation_has_a_protocol() -> None:
    for expect in get_args(Expectation):
        assert "new" in claim_protocol(claim(expect))
    assert "not higher by more than 0.01" in claim_protocol(claim("not higher", 0.01))


def alone(expect: Expectation, limit: float = 0.0, margin: float = 0.0) -> Claim:
    return Claim(
        text="t", source="s", of=ClaimSide(column="c"), expect=expect, limit=limit, margin=margin
    )


@pytest.mark.parametrize(
    ("expect", "holds", "undecided", "fails"),
    [
        ("weak", [(-0.4, 0.299)], [(0.1, 0.3), (0.299, 0.8)], [(0.3, 0.4), (0.8, 0.9)]),
        (
            "moderate",
            [(0.3, 0.699)],
            [(0.299, 0.5), (0.5, 0.7), (0.1, 0.9), (0.1, 0.3)],
            [(0.1, 0.299), (0.7, 0.8)],
        ),
        ("strong", [(0.7, 1.2)], [(0.699, 0.8), (0.1, 0.7)], [(-0.9, 0.699)]),
    ],
)
def test_a_band_includes_its_lower_bound_only(
    expect: Expectation,
    holds: list[tuple[float, float]],
    undecided: list[tuple[float, float]],
    fails: list[tuple[float, float]],
) -> None:
    judged = alone(expect)
    for verdicts, intervals in ((HOLDS, holds), (UNDECIDED, undecided), (FAILS, fails)):
        assert [claim_verdict(judged, one) for one in intervals] == [verdicts] * len(intervals)
    assert claim_verdict(judged, None) == UNDECIDED


@pytest.mark.parametrize(
    ("expect", "below", "across", "above"),
    [
        ("higher", FAILS, UNDECIDED, HOLDS),
        ("not higher", HOLDS, UNDECIDED, FAILS),
        ("lower", HOLDS, UNDECIDED, FAILS),
        ("not lower", FAILS, UNDECIDED, HOLDS),
    ],
)
def test_a_limit_replaces_zero(expect: Expectation, below: str, across: str, above: str) -> None:
    intervals = (0.45, 0.49), (0.48, 0.52), (0.51, 0.6)
    judged = alone(expect, limit=0.5)
    assert [claim_verdict(judged, one) for one in intervals] == [below, across, above]
    beyond = -0.2 if "higher" in expect else 0.2
    with_margin = alone(expect, limit=0.5 + beyond, margin=0.2)
    assert [claim_verdict(with_margin, one) for one in intervals] == [below, across, above]


@pytest.mark.parametrize(
    ("interval", "verdicts"),
    [
        ((0.06, 0.08), (HOLDS, HOLDS, FAILS)),
        ((0.03, 0.04), (FAILS, HOLDS, FAILS)),
        ((0.04, 0.06), (UNDECIDED, HOLDS, FAILS)),
        ((0.11, 0.12), (HOLDS, HOLDS, HOLDS)),
    ],
)
def test_sensitivity_to_a_margin_of_ours(
    interval: tuple[float, float], verdicts: tuple[str, str, str]
) -> None:
    """The margin is 0.05, its half 0.025 and its double 0.1."""
    assert judge_claim(claim("higher", 0.05), interval) == verdicts


def test_only_our_thresholds_vary() -> None:
    """The limit of 0.5 is given; around it the margin is 0.1, 0.05 and 0.2."""
    judged = replace(alone("not higher", 0.5, 0.1), given=("limit",))
    assert judge_claim(judged, (0.56, 0.58)) == (HOLDS, FAILS, HOLDS)
    both = alone("not higher", 0.5, 0.1)
    assert judge_claim(both, (0.56, 0.58)) == (HOLDS, FAILS, HOLDS), "0.6, 0.3 and 1.2"
    given = replace(both, given=("limit", "margin"))
    assert judge_claim(given, (0.56, 0.58)) == (HOLDS, None, None)
    assert judge_claim(alone("higher"), (0.1, 0.2)) == (HOLDS, None, None), "0 is no threshold"
    assert judge_claim(alone("strong"), (0.8, 0.9)) == (HOLDS, None, None)


def test_a_limit_near_1_varies_by_its_distance() -> None:
    """0.99 is 0.01 from 1: half of that is 0.995, double 0.98."""
    judged = replace(alone("higher", 0.99), limit_from=1.0)
    assert judge_claim(judged, (0.992, 0.994)) == (HOLDS, FAILS, HOLDS)
    assert judge_claim(judged, (0.981, 0.985)) == (FAILS, FAILS, HOLDS)
    assert judge_claim(alone("higher", 0.99), (0.992, 0.994)) == (HOLDS, HOLDS, FAILS)


@pytest.mark.parametrize(
    ("band", "inside", "outside"),
    [
        ("weak", ["0.29", "0.30", "-0.5"], ["0.31", "0.301"]),
        ("moderate", ["0.30", "0.300", "0.70"], ["0.29", "0.71", "0.72", "0.701"]),
        ("strong", ["0.70", "0.7", "0.9"], ["0.69", "0.3"]),
    ],
)
def test_a_print_outside_its_band(band: Expectation, inside: list[str], outside: list[str]) -> None:
    """A print is outside if every value that rounds to it is."""
    for printed, fails in [*((one, False) for one in inside), *((one, True) for one in outside)]:
        found = judge_claim(alone(band), (0.45, 0.5), printed).verdict
        assert (found == PRINT_OUTSIDE) == fails, printed


def test_one_side_is_the_mean_over_seeds() -> None:
    values = np.random.default_rng(3).normal(0.6, 0.1, 7)
    found = over_seeds(values.tolist())
    reference = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.value == pytest.approx(values.mean())
    assert found.interval == pytest.approx((reference.low, reference.high))


def test_protocols_of_bands_and_limits() -> None:
    assert claim_protocol(alone("weak")).endswith("expected weak (below 0.3)")
    assert claim_protocol(alone("moderate")).endswith("expected moderate (0.3 to below 0.7)")
    assert claim_protocol(alone("strong")).endswith("expected strong (0.7 or more)")
    assert claim_protocol(alone("lower", 0.5, 0.1)).endswith(
        "expected lower than 0.5 by more than 0.1"
    )
