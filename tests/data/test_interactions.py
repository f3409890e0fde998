from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.data import Interactions, Times, load, statistics
from whence.data.interactions import UNKNOWN_TIME
from whence.errors import InputError

ids = st.one_of(st.integers(-(2**62), 2**62), st.just(0))
rows = st.lists(st.tuples(ids, ids, st.integers(0, 3)), min_size=1, max_size=40)


@given(rows=rows)
def test_sorted_by_user_then_time_then_row(rows: list[tuple[int, int, int]]) -> None:
    user, item, time = (list(column) for column in zip(*rows, strict=True))
    data = Interactions.from_columns(
        pa.chunked_array([user]), pa.chunked_array([item]), Times(np.array(time))
    )
    for index, raw in enumerate(data.users["user"].to_pylist()):
        mine = [(t, row, i) for row, (u, i, t) in enumerate(rows) if u == raw]
        expected = [i for _, _, i in sorted(mine, key=lambda entry: entry[:2])]
        assert data.catalog.raw_ids(data.history(index)) == expected
    assert len(data) == len(rows)


def test_chunks_do_not_matter() -> None:
    user = pa.chunked_array([["a", "b"], ["a"], []], pa.string())
    item = pa.chunked_array([["x"], ["y", "x"]], pa.string())
    data = Interactions.from_columns(user, item)
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.catalog.raw_ids(data.items) == ["x", "x", "y"]


def test_prepared_folder_round_trip(interactions: Interactions, tmp_path: Path) -> None:
    folder = interactions.save(tmp_path / "prepared")
    again = load(folder)
    assert again.content_hash == interactions.content_hash
    assert again.verb == "watched"
    assert again.catalog.table.equals(interactions.catalog.table)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["prepared"]


def test_a_prepared_folder_is_not_overwritten(interactions: Interactions, tmp_path: Path) -> None:
    interactions.save(tmp_path / "prepared")
    with pytest.raises(InputError, match="already exists"):
        interactions.save(tmp_path / "prepared")


def test_a_manifest_without_its_hash_gives_a_clear_error(
    interactions: Interactions, tmp_path: Path
) -> None:
    folder = interactions.save(tmp_path / "prepared")
    (folder / "manifest.json").write_text('{"format": 1}')
    with pytest.raises(InputError, match="Prepare it again"):
        load(folder)


def test_fractions_of_a_second_decide_the_order() -> None:
    user, item = pa.chunked_array([["a"] * 3]), pa.chunked_array([[1, 2, 3]])
    data = Interactions.from_columns(user, item, Times(np.array([9, 1, 5]), per_second=10))
    assert data.catalog.raw_ids(data.items) == [2, 3, 1]
    assert data.times is not None
    assert data.times.tolist() == [0, 0, 0]


def test_columns_that_do_not_fit_are_refused() -> None:
    user, item = pa.chunked_array([["a", "b"]]), pa.chunked_array([[1, 2, 3]])
    with pytest.raises(InputError, match="different lengths: 2 and 3 rows"):
        Interactions.from_columns(user, item)
    with pytest.raises(InputError, match="needs a user and an item"):
        Interactions.from_columns(user, pa.chunked_array([[1, None]]))


@pytest.mark.parametrize("name", ["items.npy", "catalog.parquet", "manifest.json"])
def test_a_damaged_folder_gives_a_clear_error(
    interactions: Interactions, tmp_path: Path, name: str
) -> None:
    folder = interactions.save(tmp_path / "prepared")
    (folder / name).write_bytes(b"not what it was")
    with pytest.raises(InputError, match="prepare"):
        load(folder)


@pytest.mark.parametrize(
    ("name", "content"), [("items.npy", b""), ("manifest.json", b'{"format": 1, "filters": 5}')]
)
def test_an_emptied_folder_gives_a_clear_error(
    interactions: Interactions, tmp_path: Path, name: str, content: bytes
) -> None:
    folder = interactions.save(tmp_path / "prepared")
    (folder / name).write_bytes(content)
    with pytest.raises(InputError, match="Prepare it again"):
        load(folder)


def test_a_changed_event_is_noticed(interactions: Interactions, tmp_path: Path) -> None:
    folder = interactions.save(tmp_path / "prepared")
    items = interactions.items.copy()
    items[0] += 1
    np.save(folder / "items.npy", items)
    with pytest.raises(InputError, match="has changed since it was prepared"):
        load(folder)


def test_statistics_by_hand() -> None:
    data = Interactions.from_columns(
        pa.chunked_array([["a", "a", "a", "b", "b"]]),
        pa.chunked_array([[1, 2, 3, 1, 2]]),
        Times(np.array([5, 5, 6, 6, 6])),
    )
    found = statistics(data)
    assert (found["users"], found["items"], found["events"]) == (2, 3, 5)
    assert found["median events per user"] == 2.5
    assert found["median events per item"] == 2
    assert found["density"] == pytest.approx(5 / 6)
    assert (found["steps with equal times"], found["steps with known times"]) == (2, 3)
    assert found["users with fewer than 3 events"] == 1
    assert found["events that repeat a user-item pair"] == 0
    assert (found["first"], found["last"]) == ("1970-01-01", "1970-01-01")


def test_it_shows_itself_in_a_line() -> None:
    data = Interactions.from_columns(
        pa.chunked_array([["a", "b"]]), pa.chunked_array([[1, 2]]), Times(np.array([0, 86_400]))
    )
    assert repr(data) == "Interactions: 2 users, 2 items, 2 events, 1970-01-01 to 1970-01-02"


def test_statistics_of_what_is_not_known() -> None:
    data = Interactions.from_columns(
        pa.chunked_array([["a", "a", "a", "a"]]),
        pa.chunked_array([[1, 1, 2, 1]]),
        Times(np.array([5, UNKNOWN_TIME, UNKNOWN_TIME, 86_400 * 365])),
        order=np.array([4, 3, 2, 1]),
    )
    found = statistics(data)
    assert data.catalog.raw_ids(data.items) == [1, 2, 1, 1], "in the order given, not by time"
    assert (found["steps with equal times"], found["steps with known times"]) == (0, 0)
    assert found["events that repeat a user-item pair"] == 2
    assert (found["first"], found["last"]) == ("1970-01-01", "1971-01-01")
    untimed = Interactions.from_columns(pa.chunked_array([[1]]), pa.chunked_array([[1]]))
    found = statistics(untimed)
    assert found["steps with equal times"] is None
    assert found["first"] is None
    assert found["density"] == 1


def test_an_unknown_user_gives_a_clear_error(interactions: Interactions) -> None:
    assert interactions.find_user("1") == 0
    with pytest.raises(
        InputError, match="No user has the id 'nobody'. The first ids in the data are 1"
    ):
        interactions.find_user("nobody")
    with pytest.raises(InputError, match="No user has the id"):
        interactions.find_user(10**30)
