from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import interactions_of
from whence.contract import PAD
from whence.data import (
    SPLITS,
    Interactions,
    Times,
    last_one,
    last_two,
    split_by,
    temporal,
    user_holdout,
)
from whence.data.histories import histories, one_history
from whence.data.interactions import UNKNOWN_TIME
from whence.data.splits import HeldOut
from whence.errors import InputError

users = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=9), min_size=1, max_size=6)


@given(users=users)
def test_leave_one_out_by_hand(users: list[list[int]]) -> None:
    data = interactions_of(users)
    split = last_two(data)
    long_enough = [number for number, items in enumerate(users) if len(items) >= 3]
    for number, items in enumerate(users):
        size = split.train_ends[number] - data.offsets[number]
        assert size == (len(items) - 2 if number in long_enough else len(items))
    places: dict[HeldOut, int] = {"validation": -2, "test": -1}
    for held, place in places.items():
        cases = split.held[held]
        assert cases.users.tolist() == long_enough
        for row, number in enumerate(long_enough):
            assert data.catalog.raw_ids([cases.targets[row]]) == [users[number][place]]
            before = cases.histories(20)[row]
            known = data.catalog.raw_ids(before[before != PAD])
            assert known == users[number][:place]


@given(users=users)
def test_leave_last_out_by_hand(users: list[list[int]]) -> None:
    data = interactions_of(users)
    split = last_one(data)
    long_enough = [number for number, items in enumerate(users) if len(items) >= 2]
    sizes = (split.train_ends - data.offsets[:-1]).tolist()
    assert sizes == [max(1, len(items) - 1) for items in users]
    assert split.trained().sum() == sum(sizes)
    assert len(split.held["validation"]) == 0
    assert split.held["validation"].histories(5).shape == (0, 5)
    cases = split.held["test"]
    assert cases.users.tolist() == long_enough
    for row, number in enumerate(long_enough):
        assert data.catalog.raw_ids([cases.targets[row]]) == [users[number][-1]]
        before = cases.histories(20)[row]
        assert data.catalog.raw_ids(before[before != PAD]) == users[number][:-1]


@given(users=users, length=st.integers(1, 12))
def test_histories_are_the_newest_right_aligned(users: list[list[int]], length: int) -> None:
    data = interactions_of(users)
    found = histories(data.items, data.offsets[:-1], data.offsets[1:], length)
    for row, items in enumerate(users):
        newest = items[-length:]
        assert data.catalog.raw_ids(found[row][length - len(newest) :]) == newest
        assert (found[row][: length - len(newest)] == PAD).all()


def test_one_history() -> None:
    assert one_history([4, 5], 3).tolist() == [[PAD, 4, 5]]
    assert one_history([4, 5, 6, 7], 3).tolist() == [[5, 6, 7]]


@pytest.mark.parametrize("size", [1, 2])
def test_short_users_are_for_training_only(size: int) -> None:
    split = last_two(interactions_of([list(range(size))]))
    assert len(split.held["test"]) == 0
    assert split.trained().all()


timed = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 60)), min_size=20, max_size=80
)


def at_times(rows: list[tuple[int, int, int]]) -> Interactions:
    user, item, time = (list(column) for column in zip(*rows, strict=True))
    return Interactions.from_columns(
        pa.chunked_array([user]), pa.chunked_array([item]), Times(np.array(time))
    )


@given(rows=timed)
def test_temporal_by_hand(rows: list[tuple[int, int, int]]) -> None:
    data = at_times(rows)
    try:
        split = temporal(data)
    except InputError as problem:
        assert "too few distinct times" in str(problem)
        return
    assert data.times is not None
    trained = split.trained()
    first_held = data.times[~trained].min()
    assert (data.times[trained] < first_held).all(), "one point in time for all users"
    assert (~trained).mean() >= 0.05 or (data.times == first_held).sum() > 1
    order = np.sort(data.times)
    test_from = order[int(np.ceil(0.9 * (len(order) - 1)))]
    for held, begin, end in (("validation", first_held, test_from), ("test", test_from, 10**9)):
        expected = []
        for user in range(data.user_count):
            events = np.arange(data.offsets[user], data.offsets[user + 1])
            before = events[data.times[events] < begin]
            within = events[(data.times[events] >= begin) & (data.times[events] < end)]
            if len(before) and len(within):
                expected.append((user, data.offsets[user], within[0], data.items[within[0]]))
        cases = split.held[held]  # type: ignore[index]
        found = zip(cases.users, cases.starts, cases.ends, cases.targets, strict=True)
        assert list(found) == expected


def test_temporal_needs_times() -> None:
    with pytest.raises(InputError, match="needs the time of every event"):
        temporal(interactions_of([[1, 2, 3]]))
    partly = at_times([(1, 1, 5), (1, 2, UNKNOWN_TIME)])
    with pytest.raises(InputError, match="needs the time of every event"):
        temporal(partly)


def test_user_holdout_keeps_users_apart(interactions: Interactions) -> None:
    split = user_holdout(interactions)
    validation, test = split.held["validation"], split.held["test"]
    assert len(validation) == len(test) == 30
    assert not set(validation.users) & set(test.users)
    trained = split.trained()
    held_out = np.isin(interactions.user_of_event(), np.union1d(validation.users, test.users))
    assert (trained == ~held_out).all()
    last = interactions.offsets[test.users + 1] - 1
    assert (test.ends == last).all()
    assert (test.targets == interactions.items[last]).all()
    again = user_holdout(interactions)
    other = user_holdout(interactions, seed=1)
    assert (again.held["test"].users == test.users).all()
    assert set(other.held["test"].users) != set(test.users)


def test_user_holdout_needs_users() -> None:
    with pytest.raises(
        InputError, match="needs 10 users with two events or more, but the data have 2"
    ):
        user_holdout(interactions_of([[1, 2], [1, 2], [1]]))


def test_splits_by_name(interactions: Interactions) -> None:
    for name, make_split in SPLITS.items():
        assert split_by(name, interactions).protocol == make_split(interactions).protocol
    with pytest.raises(InputError, match="There is no split 'temporl': did you mean 'temporal'"):
        split_by("temporl", interactions)
    with pytest.raises(InputError, match="'leave-one-out' is now called 'last-two'"):
        split_by("leave-one-out", interactions)
