"""Intervals of calibration over users, whose cases depend on one another."""

from __future__ import annotations

from itertools import product
from statistics import fmean
from typing import NamedTuple

import numpy as np
import pytest
from liking import ITEMS, Liking, candidates
from scipy import special, stats

from conftest import ragged_batch
from whence.measure import Measure
from whence.trust import (
    Bins,
    EqualMass,
    EqualWidth,
    JainBins,
    Predictions,
    adaptive_calibration_error,
    brier_score,
    calibration_measures,
    class_logits,
    class_predictions,
    expected_calibration_error,
    maximum_calibration_error,
    negative_log_likelihood,
    positives_and_negatives,
    predictions_of,
    reliability,
    temperature_scaling,
)

RESAMPLES = 200


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whence.trust.resampling.RESAMPLES", RESAMPLES)


class Case(NamedTuple):
    """One row, for what is worked out in plain Python."""

    user: int
    sure: float
    right: bool
    squares: float
    surprise: float


def drawn(
    users: int, each: int, seed: int = 0, common: float = 0.0, off: float = 0.0
) -> Predictions:
    """Two classes. What a user's cases have in common makes them right, or wrong, together.

    The confidence is the mean over users of how often a case is right, but for `off`.
    """
    rng = np.random.default_rng(seed)
    threshold = rng.uniform(0.2, 1.8, users * each)
    shift = np.repeat(rng.normal(size=users), each)
    right = threshold + common * shift + np.sqrt(1 - common**2) * rng.normal(size=len(shift)) > 0
    first = special.ndtr(threshold + off)
    found = predictions_of(np.stack((first, 1 - first), axis=1), 1 - right.astype(np.int64))
    return found.with_users(np.repeat(np.arange(users), each))


def cases_of(predictions: Predictions) -> list[Case]:
    assert predictions.users is not None
    columns = (
        predictions.users,
        predictions.confidence,
        predictions.correct,
        predictions.squares,
        -predictions.log_likelihood,
    )
    return [Case(*row) for row in zip(*(one.tolist() for one in columns), strict=True)]


def resamples(cases: list[Case], seed: int) -> list[list[Case]]:
    """Users drawn one by one, in the order of their numbers, each with all cases."""
    of: dict[int, list[Case]] = {}
    for case in cases:
        of.setdefault(case.user, []).append(case)
    numbers = sorted(of)
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    draws = rng.integers(0, len(numbers), (RESAMPLES, len(numbers))).tolist()
    return [[case for place in draw for case in of[numbers[place]]] for draw in draws]


def plain_bins(cases: list[Case], edges: list[float]) -> list[list[Case]]:
    bins: list[list[Case]] = [[] for _ in edges[1:]]
    for case in cases:
        number = max(place for place in range(len(bins)) if case.sure >= edges[place])
        bins[number].append(case)
    return bins


def plain_gaps(bins: list[list[Case]]) -> list[float]:
    return [abs(fmean(one.right - one.sure for one in some)) if some else 0.0 for some in bins]


def plain_errors(cases: list[Case], edges: list[float]) -> tuple[float, float]:
    """The expected and the maximum calibration error."""
    bins = plain_bins(cases, edges)
    gaps = plain_gaps(bins)
    expected = sum(len(some) * gap for some, gap in zip(bins, gaps, strict=True)) / len(cases)
    return expected, max(gaps)


def test_users_stay_with_their_cases() -> None:
    found = drawn(6, 5)
    some = np.random.default_rng(0).permutation(30)[:17]
    np.testing.assert_array_equal(found[some].user_of, some // 5)
    np.testing.assert_array_equal(found[3:12].users, np.arange(3, 12) // 5)
    assert found[3:12].user_count == 3
    for number, part in enumerate(positives_and_negatives(found).values()):
        np.testing.assert_array_equal(part.users, np.flatnonzero(found.true == number) // 5)
        np.testing.assert_array_equal(part.users, found.for_class(number).users)
    assert found[:0].user_count == 0
    assert not found[:0].dependent


def test_targets_of_a_history_are_of_one_user() -> None:
    batch, (targets, _) = ragged_batch(7, 5, ITEMS), candidates(7, 4)
    true = Liking().classes(batch, targets).argmax(dim=2)
    true[:, 0] = 1 - true[:, 0]
    found = class_predictions(Liking(), batch, targets, true)
    np.testing.assert_array_equal(found.users, np.repeat(np.arange(7), 4))
    assert brier_score(found).protocol.endswith("28 cases of 2 classes; interval over 7 users")
    one_each = class_predictions(Liking(), batch, targets[:, :1], true[:, :1])
    assert "users" not in brier_score(one_each).protocol
    logits = class_logits(Liking(), batch, targets, true)
    scaled = temperature_scaling(logits, logits, found.users)
    for before, after in scaled.measures().values():
        assert "interval over 7 users" in before.protocol
        assert "interval over 7 users" in after.protocol


def test_where_every_user_has_one_case_nothing_changes() -> None:
    """Nor where all cases are of one user, so that there is no other to draw."""
    known = drawn(150, 1, off=0.3)
    assert known.users is not None
    unknown = Predictions(**{**vars(drawn(150, 1, off=0.3)), "users": None})
    for other in (known.with_users(known.users[::-1].copy()), known.with_users(known.users * 0)):
        assert not other.dependent
        assert calibration_measures(other) == calibration_measures(unknown)
        for bins in (EqualWidth(), EqualMass(7), JainBins()):
            one, two = (reliability(predictions, bins) for predictions in (other, unknown))
            np.testing.assert_array_equal(one.interval, two.interval)
            assert one.protocol == two.protocol


def repeated(predictions: Predictions, times: int) -> Predictions:
    return predictions[np.repeat(np.arange(len(predictions)), times)]


def width(measure: Measure) -> float:
    return measure.interval[1] - measure.interval[0]


def test_more_of_the_same_makes_nothing_surer() -> None:
    """Cases that a user has k times over; as others' they would seem to say more."""
    once = drawn(300, 1, off=0.4)
    alone = calibration_measures(once)
    twice, often = (calibration_measures(repeated(once, times)) for times in (2, 6))
    of_others = calibration_measures(
        repeated(once, 6).with_users(np.arange(6 * len(once), dtype=np.int64))
    )
    for name, measure in twice.items():
        assert often[name].value == pytest.approx(measure.value)
        assert often[name].interval == pytest.approx(measure.interval)
        assert width(measure) > 0.8 * width(alone[name]), "but for what is drawn"
        assert width(of_others[name]) < 0.7 * width(measure)
    diagrams = [reliability(repeated(once, times), EqualWidth(8)) for times in (1, 2, 6)]
    np.testing.assert_allclose(diagrams[2].interval, diagrams[1].interval)
    some = diagrams[0].count >= 10
    sizes = [np.ptp(one.interval[some], axis=1) for one in diagrams]
    np.testing.assert_allclose(sizes[1], sizes[0], rtol=0.3)


@pytest.mark.parametrize("bins", [EqualWidth(6), EqualMass(4)], ids=type)
def test_equals_users_drawn_one_by_one(bins: Bins) -> None:
    """Of users with more and with fewer cases, in the bins of all cases."""
    every = drawn(25, 6, common=0.7, off=1.0)
    some = every[np.random.default_rng(1).permutation(len(every))[:90]]
    cases = cases_of(some)
    edges = bins.edges(np.sort(some.confidence)).tolist()
    slow = [plain_errors(one, edges) for one in resamples(cases, seed=3)]
    measured = (expected_calibration_error, maximum_calibration_error)
    for place, measure in enumerate(measured):
        found = measure(some, bins, seed=3)
        value = plain_errors(cases, edges)[place]
        high = max(value, np.percentile([one[place] for one in slow], 97.5))
        assert found.value == pytest.approx(value)
        assert found.interval[1] == pytest.approx(high)
        assert found.interval[0] in (0.0, pytest.approx(2 * value - high))
        assert "interval over 25 users; a calibrated model would" in found.protocol
    assert expected_calibration_error(some, bins, seed=3).interval[0] > 0, "it is far too sure"


def test_means_equal_users_drawn_one_by_one() -> None:
    some = drawn(20, 5, common=0.7)[np.random.default_rng(1).permutation(100)[:60]]
    draws = resamples(cases_of(some), seed=4)
    for measure, field in ((brier_score, "squares"), (negative_log_likelihood, "surprise")):
        slow = [fmean(getattr(case, field) for case in one) for one in draws]
        found = measure(some, seed=4)
        assert found.interval == pytest.approx(tuple(np.percentile(slow, [2.5, 97.5])))
        assert found.n == 60


def test_bins_equal_users_drawn_one_by_one() -> None:
    some = drawn(30, 6, common=0.7)[np.random.default_rng(1).permutation(180)[:120]]
    found = reliability(some, EqualWidth(6), seed=5)
    assert found.protocol.endswith("interval over 30 users")
    draws = [plain_bins(one, found.edges.tolist()) for one in resamples(cases_of(some), seed=5)]
    for number, inside in enumerate(plain_bins(cases_of(some), found.edges.tolist())):
        if not inside:
            assert np.isnan(found.interval[number]).all()
            continue
        assert 0 < fmean(case.right for case in inside) < 1
        slow = [fmean(case.right for case in one[number]) for one in draws if one[number]]
        expected = np.percentile(slow, [2.5, 97.5])
        assert found.interval[number] == pytest.approx(expected)


def test_what_no_resample_can_tell_is_wilsons_of_users() -> None:
    """Of 9 cases of 3 users all are right; of one user's 4 cases half are."""
    sure = [0.95] * 9 + [0.7] * 4
    right = [1] * 9 + [1, 1, 0, 0]
    first = np.array(sure)
    predictions = predictions_of(np.stack((first, 1 - first), axis=1), 1 - np.array(right))
    found = reliability(
        predictions.with_users(np.array([1, 1, 1, 2, 2, 2, 2, 2, 3, 1, 1, 1, 1])), JainBins()
    )
    low, high = stats.binomtest(3, 3).proportion_ci(method="wilson")
    assert found.interval[4] == pytest.approx((low, high))
    low, high = found.interval[2].tolist()
    assert low + high == pytest.approx(1.0)
    assert high - low > 0.8, "one user says little of others"
    assert np.isnan(found.interval[[0, 1, 3]]).all()


@pytest.mark.parametrize("bins", [EqualWidth(), EqualMass(), JainBins()], ids=type)
def test_without_anything_in_common_chance_is_that_of_cases(bins: Bins) -> None:
    """By signs of users nearly as by drawing anew whether each case is right."""
    of_users = drawn(1_500, 2)
    of_cases = of_users.with_users(np.arange(3_000, dtype=np.int64))
    signs, anew = (by_chance(expected_calibration_error(one, bins)) for one in (of_users, of_cases))
    assert signs == pytest.approx(anew, abs=0.0021)


def by_chance(measure: Measure) -> float:
    """What the protocol says that a calibrated model would have."""
    return float(measure.protocol.split("would have ")[1].split(" by")[0])


def test_with_much_in_common_chance_is_that_of_other_users() -> None:
    """What calibrated models have indeed, on users drawn anew; by cases it would be far less."""
    measures = [
        expected_calibration_error(drawn(60, 50, seed, common=0.8), EqualWidth(10))
        for seed in range(40)
    ]
    indeed = np.mean([one.value for one in measures])
    assert np.mean([by_chance(one) for one in measures]) == pytest.approx(indeed, rel=0.15)
    of_cases = drawn(60, 50, common=0.8).with_users(np.arange(3_000, dtype=np.int64))
    assert by_chance(expected_calibration_error(of_cases, EqualWidth(10))) < 0.6 * indeed


def alike(users: int, each: int, seed: int, sure: float, right: float) -> Predictions:
    """All as sure, and each as likely to be right, whoever's it is."""
    first = np.full(users * each, sure)
    true = np.random.default_rng(seed).random(len(first)) >= right
    found = predictions_of(np.stack((first, 1 - first), axis=1), true.astype(np.int64))
    return found.with_users(np.repeat(np.arange(users), each))


def mean_by_chance(samples: list[Predictions], bins: Bins) -> tuple[float, float]:
    """By users, and as if every case were another's."""
    by_users = [by_chance(expected_calibration_error(one, bins)) for one in samples]
    of_cases = [one.with_users(np.arange(len(one), dtype=np.int64)) for one in samples]
    by_cases = [by_chance(expected_calibration_error(one, bins)) for one in of_cases]
    return fmean(by_users), fmean(by_cases)


@pytest.mark.parametrize("users", [6, 40])
def test_of_few_users_too_chance_is_that_of_cases(users: int) -> None:
    samples = [drawn(users, 20, seed) for seed in range(100)]
    by_users, by_cases = mean_by_chance(samples, EqualWidth(8))
    assert by_users == pytest.approx(by_cases, rel=0.05)


@pytest.mark.parametrize("users", [5, 100])
def test_a_gap_is_not_taken_for_chance(users: int) -> None:
    """Of cases that are right half the time, though the model is 90 % sure of them.

    The mean size of a normal gap is √(2 / π) of its deviation, which is by users that of these
    cases, √(.5 · .5), and by cases that of a calibrated model's, √(.9 · .1).
    """
    samples = [alike(users, 50, seed, sure=0.9, right=0.5) for seed in range(30)]
    by_users, by_cases = mean_by_chance(samples, EqualWidth(15))
    of_one = np.sqrt(2 / np.pi / (50 * users))
    assert by_users == pytest.approx(0.5 * of_one, rel=0.12)
    assert by_cases == pytest.approx(0.3 * of_one, rel=0.12)


def test_what_users_cases_have_in_common_is_more_than_chance_of_cases() -> None:
    """Also where the model is far too sure."""
    for off in (0.0, 1.0):
        samples = [drawn(20, 50, seed, common=0.8, off=off) for seed in range(5)]
        by_users, by_cases = mean_by_chance(samples, EqualWidth(8))
        assert by_users > 1.5 * by_cases


def signed_by_hand(cases: list[Case], edges: list[float]) -> float:
    """The mean error over all signs there are, user by user and bin by bin."""
    users = sorted({case.user for case in cases})
    errors = []
    for signs in product((-1, 1), repeat=len(users)):
        error = 0.0
        for inside in filter(None, plain_bins(cases, edges)):
            gap = fmean(one.right - one.sure for one in inside)
            total = 0.0
            for sign, user in zip(signs, users, strict=True):
                own = [one.right - one.sure for one in inside if one.user == user]
                if len(own) == len(inside):
                    total += sign * sum(own)
                else:
                    left = sum(beyond - gap for beyond in own)
                    total += sign * left / (1 - len(own) / len(inside)) ** 0.5
            error += abs(total) / len(cases)
        errors.append(error)
    return fmean(errors)


def test_chance_equals_all_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of users with more and with fewer cases in a bin, of which one has a bin for itself."""
    monkeypatch.setattr("whence.trust.resampling.RESAMPLES", 20_000)
    every = drawn(7, 6, common=0.7, off=0.3)
    some = every[np.random.default_rng(1).permutation(len(every))[:25]]
    bins = EqualWidth(20)
    edges = bins.edges(some.confidence).tolist()
    inside = [{case.user for case in one} for one in plain_bins(cases_of(some), edges)]
    assert {1, 2} <= set(map(len, inside)), "bins of one user and of several"
    expected = signed_by_hand(cases_of(some), edges)
    assert by_chance(expected_calibration_error(some, bins)) == pytest.approx(expected, abs=0.0011)


def test_few_users_do_not_refute_a_calibrated_model() -> None:
    for measure in (expected_calibration_error, maximum_calibration_error):
        lows = [measure(drawn(8, 30, seed)).interval[0] for seed in range(40)]
        assert np.count_nonzero(lows) <= 4, "2.5 % are to be"


@pytest.mark.parametrize("off", [0.0, 0.5], ids=["calibrated", "too sure"])
def test_the_interval_holds_the_truth(off: float) -> None:
    """Where cases of a user have much in common, intervals over cases are far too short."""
    truth = 0.0
    if off:
        truth = reliability(drawn(200_000, 1, 99, off=off), EqualWidth(10)).error()
    held = {"users": 0, "cases": 0}
    for seed in range(40):
        of_users = drawn(60, 50, seed, common=0.8, off=off)
        of_cases = of_users.with_users(np.arange(len(of_users), dtype=np.int64))
        for name, predictions in (("users", of_users), ("cases", of_cases)):
            low, high = expected_calibration_error(predictions, EqualWidth(10)).interval
            held[name] += low <= truth <= high
    assert held["users"] >= 35
    assert held["cases"] <= 25


def test_the_order_of_the_cases_does_not_matter() -> None:
    predictions = drawn(30, 5, common=0.5)
    turned = predictions[np.random.default_rng(0).permutation(150)]
    for measure in (
        expected_calibration_error,
        maximum_calibration_error,
        adaptive_calibration_error,
    ):
        assert measure(turned) == measure(predictions)
    one, other = reliability(predictions), reliability(turned)
    np.testing.assert_array_equal(one.interval, other.interval)
    assert brier_score(turned).interval == pytest.approx(brier_score(predictions).interval)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    predictions = drawn(40, 3, common=0.5)
    whole = calibration_measures(predictions)
    monkeypatch.setattr("whence.trust.resampling.DRAWS_AT_ONCE", 90)
    for name, measure in calibration_measures(predictions).items():
        assert measure.interval == pytest.approx(whole[name].interval), name
