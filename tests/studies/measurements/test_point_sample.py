"""The points of a study, against the lengths of the users they are drawn from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from conftest import interactions_of
from whence.data import Split, last_two
from whence.data.histories import Cases
from whence.data.splits import HeldOut
from whence.errors import InputError
from whence_studies.measurements.point_sample import (
    PointSample,
    PointSampling,
    draw_full,
    draw_points,
)

LENGTHS = np.array([3, 4, 10, 2, 30])
"""Of users 1, 2 and 4 the validation event has a history of two items or more."""


@pytest.fixture(scope="module")
def users() -> Split:
    return last_two(interactions_of([list(range(length)) for length in LENGTHS]))


def same(one: Cases, two: Cases) -> bool:
    columns = ("users", "starts", "ends", "targets")
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in columns)


@pytest.mark.parametrize(
    ("drawn", "weight", "other"),
    [("by length", [4, 10, 30], [2, 8, 28]), ("uniformly", [1, 1, 1], [4, 10, 30])],
)
def test_users_are_drawn_by_their_weights(
    users: Split, drawn: PointSampling, weight: list[int], other: list[int]
) -> None:
    """By all of a user's events, also those that the history is without."""
    cases = draw_points(users, "validation", PointSample(20_000, drawn))
    found, counts = np.unique(cases.users, return_counts=True)
    assert found.tolist() == [1, 2, 4]
    share, wrong = (np.array(one) / sum(one) for one in (weight, other))
    assert stats.chisquare(counts, 20_000 * share).pvalue > 0.01
    assert stats.chisquare(counts, 20_000 * wrong).pvalue < 1e-6


def test_a_point_is_a_held_out_event(users: Split) -> None:
    by_held: dict[HeldOut, int] = {"validation": 2, "test": 1}
    for held, back in by_held.items():
        cases = draw_points(users, held, PointSample(200))
        lengths = LENGTHS[cases.users]
        np.testing.assert_array_equal(cases.ends - cases.starts, lengths - back)
        np.testing.assert_array_equal(cases.targets, lengths - back)
        assert (cases.ends - cases.starts >= 2).all()
    assert 0 in draw_points(users, "test", PointSample(2_000)).users, "two items are enough"


def test_every_call_draws_the_same(users: Split) -> None:
    one, two = (draw_points(users, "validation", PointSample(50)) for _ in range(2))
    assert same(one, two)
    assert not same(one, draw_points(users, "validation", PointSample(50, "uniformly")))


def test_full_histories_are_full_and_distinct(split: Split) -> None:
    every = split.held["validation"]
    full = np.flatnonzero(every.ends - every.starts >= 20)
    assert 40 < len(full) < len(every)
    assert draw_full(split, "validation", 20, 10_000).users.tolist() == every.users[full].tolist()
    some = draw_full(split, "validation", 20, 30)
    assert len(set(some.users.tolist())) == len(some) == 30
    assert set(some.users) <= set(every.users[full])
    assert some.users.tolist() != every.users[full][:30].tolist(), "not just the first"
    assert same(some, draw_full(split, "validation", 20, 30))


def test_impossible_samples_raise(users: Split) -> None:
    with pytest.raises(InputError, match="No validation event has a history of 29 items"):
        draw_full(users, "validation", 29, 5)
    nobody = last_two(interactions_of([[0, 1, 2], [3, 4]]))
    with pytest.raises(InputError, match="No validation event has a history of 2 items"):
        draw_points(nobody, "validation", PointSample(5))
    with pytest.raises(InputError, match="points must be at least 1, not 0"):
        PointSample(0)
    with pytest.raises(InputError, match="drawn cannot be 'length': did you mean 'by length'"):
        PointSample(5, "length")  # type: ignore[arg-type]
