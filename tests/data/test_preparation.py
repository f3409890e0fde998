from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.data import Interactions, Preparation, Times, prepare
from whence.errors import InputError

Row = tuple[int, int, int, int]
rows = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 5), st.integers(0, 9)),
    min_size=1,
    max_size=40,
)


def interactions(rows: list[Row]) -> Interactions:
    user, item, rating, time = (list(column) for column in zip(*rows, strict=True))
    return Interactions.from_columns(
        pa.chunked_array([user]),
        pa.chunked_array([item]),
        Times(np.array(time)),
        np.array(rating, dtype=np.float32),
    )


def listed(events: Interactions) -> list[Row]:
    """Back to rows, in order."""
    assert events.times is not None
    assert events.ratings is not None
    users = events.users["user"].to_numpy()[events.user_of_event()]
    items = events.catalog.raw_ids(events.items)
    return list(
        zip(users.tolist(), items, events.ratings.tolist(), events.times.tolist(), strict=True)
    )


def one_by_one(rows: list[Row], how: Preparation) -> list[Row]:
    """The same in plain loops, on rows in order."""
    if how.min_rating is not None:
        rows = [row for row in rows if row[2] >= how.min_rating]
    if how.repeats != "all":
        ordered = rows if how.repeats == "first" else rows[::-1]
        seen: set[tuple[int, int]] = set()
        kept = []
        for row in ordered:
            if row[:2] not in seen:
                kept.append(row)
            seen.add(row[:2])
        rows = kept if how.repeats == "first" else kept[::-1]
    while True:
        users, items = Counter(row[0] for row in rows), Counter(row[1] for row in rows)
        left = [
            r
            for r in rows
            if users[r[0]] >= how.min_user_events and items[r[1]] >= how.min_item_events
        ]
        if not how.k_core or left == rows:
            return left
        rows = left


@given(
    rows=rows,
    how=st.builds(
        Preparation,
        min_rating=st.sampled_from([None, 3.0]),
        repeats=st.sampled_from(["all", "first", "last"]),
        min_user_events=st.integers(1, 4),
        min_item_events=st.integers(1, 4),
        k_core=st.booleans(),
    ),
)
def test_against_loops(rows: list[Row], how: Preparation) -> None:
    events = interactions(rows)
    expected = one_by_one(listed(events), how)
    if not expected:
        with pytest.raises(InputError, match="The filters left no events"):
            prepare(events, how)
        return
    found = prepare(events, how)
    assert listed(found) == expected
    assert found.user_count == len({row[0] for row in expected})
    assert found.item_count == len({row[1] for row in expected})
    assert sum(one["dropped"] for one in found.filters) == len(rows) - len(expected)


@given(rows=rows)
def test_equal_rows_against_a_loop(rows: list[Row]) -> None:
    user, item, rating, time = (list(column) for column in zip(*rows, strict=True))
    events = Interactions.from_columns(
        pa.chunked_array([user]),
        pa.chunked_array([item]),
        Times(np.array(time)),
        np.array(rating, dtype=np.float32),
        keep_duplicates=False,
    )
    everything = listed(interactions(rows))
    assert listed(events) == list(dict.fromkeys(everything))
    assert events.filters[0]["dropped"] == len(rows) - len(set(rows))


def test_counting_once_leaves_users_below_the_minimum() -> None:
    """Events are counted once before any is dropped, as in SASRec's files; or until none is."""
    rows = [(1, item, 5, item) for item in range(3)] + [(user, 0, 5, 0) for user in (2, 3)]
    rows += [(user, 1, 5, 1) for user in (2, 3)]
    events = interactions(rows)
    once = prepare(events, Preparation(min_user_events=2, min_item_events=3))
    assert np.diff(once.offsets).tolist() == [2, 2, 2]
    assert once.item_count == 2
    once = prepare(events, Preparation(min_user_events=3, min_item_events=3))
    assert np.diff(once.offsets).tolist() == [2], "kept for three events, and left with two"
    with pytest.raises(
        InputError, match="users with fewer than 3 events and items .* counted repeatedly"
    ):
        prepare(events, Preparation(min_user_events=3, min_item_events=3, k_core=True))


def test_what_travels_along() -> None:
    events = Interactions.from_columns(
        pa.chunked_array([["a", "b", "b"]]),
        pa.chunked_array([[1, 2, 3]]),
        title=pa.chunked_array([["one", "two", "three"]]),
    )
    left = prepare(events, Preparation(min_user_events=2))
    assert left.users["user"].to_pylist() == ["b"]
    assert left.catalog.table.to_pylist() == [
        {"item": 2, "title": "two"},
        {"item": 3, "title": "three"},
    ]


def test_nothing_to_do_is_nothing_done() -> None:
    events = interactions([(1, 1, 1, 1)])
    assert prepare(events, Preparation()) is events


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"repeats": "some"}, "one of all, first, last"),
        ({"min_user_events": 0}, "whole numbers from 1"),
        ({"min_rating": float("-inf")}, "min_rating is a number"),
    ],
)
def test_wrong_settings_give_a_clear_error(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Preparation(**settings)  # type: ignore[arg-type]


def test_a_threshold_needs_ratings() -> None:
    events = Interactions.from_columns(pa.chunked_array([[1]]), pa.chunked_array([[1]]))
    with pytest.raises(InputError, match="have no ratings to compare with min_rating"):
        prepare(events, Preparation(min_rating=4))
