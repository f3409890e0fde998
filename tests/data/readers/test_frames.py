"""Tables in memory, by the Arrow C stream."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from whence.data import ReadOptions, load
from whence.errors import InputError

ROWS = {
    "user": ["b", "a", "b"],
    "item": [10, 20, 30],
    "time": [datetime.datetime(2020, 1, day, 12) for day in (3, 1, 2)],
    "rating": [1.0, 2.0, 3.0],
}


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"]
)
def test_frames(make: object) -> None:
    data = load(make(ROWS))  # type: ignore[operator]
    assert data.users["user"].to_pylist() == ["b", "a"]
    assert data.catalog.raw_ids(data.items) == [30, 10, 20]
    assert data.times is not None
    assert data.times.tolist() == [1577966400, 1578052800, 1577880000]


def test_a_stream_of_batches_is_read_once() -> None:
    reader = pa.table(ROWS).to_reader()
    assert len(load(reader)) == 3


def test_the_order_of_categories_is_not_the_order_of_ids() -> None:
    frame = pd.DataFrame(ROWS)
    frame["user"] = pd.Categorical(frame["user"], categories=["unused", "a", "b"])
    assert load(frame).content_hash == load(pd.DataFrame(ROWS)).content_hash


def test_ids_keep_their_type() -> None:
    data = load(pa.table({"user": ["1", "2"], "item": pa.array([2**63 + 1, 5], pa.uint64())}))
    assert data.users["user"].to_pylist() == ["1", "2"]
    assert data.catalog.raw_ids([0, 1]) == [2**63 + 1, 5]


def test_numbers_that_were_made_floats_by_a_gap_are_whole_again() -> None:
    data = load(pd.DataFrame({"user": [1.0, 2.0], "item": [1, 2]}))
    assert data.users["user"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (
            pd.DataFrame({"user": [1, None], "item": [1, 2]}),
            "row 2, column 'user': the value is missing",
        ),
        (
            pl.DataFrame({"user": [1.0, float("nan")], "item": [1, 2]}),
            "row 2, column 'user': nan is",
        ),
        (pd.DataFrame({"user": [1, "a"], "item": [1, 2]}), "Use one type for each column"),
        (pd.DataFrame({"user": [], "item": []}), "has no rows"),
        (pd.DataFrame({"who": [1], "item": [1]}), "which column is the user.*who, item"),
        (
            pl.DataFrame({"user": [1], "item": [1], "time": ["soon"]}),
            "column 'time': 'soon' is not",
        ),
        (
            pa.table({"user": [1], "item": [1], "rating": pa.array([[1]])}),
            "row 1, column 'rating': .* is not a number",
        ),
    ],
)
def test_bad_frames_give_a_clear_error(frame: object, sentence: str) -> None:
    with pytest.raises(InputError, match=f"The table.*{sentence}"):
        load(frame)  # type: ignore[arg-type]


def test_parquet_of_every_number_and_time_type(tmp_path: Path) -> None:
    day = datetime.date(2020, 1, 1)
    moment = datetime.datetime(2020, 1, 1)
    columns = {
        "date32": pa.array([day]),
        "date64": pa.array([day], pa.date64()),
        "s": pa.array([moment], pa.timestamp("s")),
        "ms": pa.array([moment], pa.timestamp("ms", "Europe/Berlin")),
        "ns": pa.array([moment], pa.timestamp("ns", "UTC")),
        "text": pa.array(["2020-01-01T00:00:00+00:00"]),
        "int32": pa.array([1577836800], pa.int32()),
        "uint64": pa.array([1577836800000], pa.uint64()),
        "decimal": pa.array([1577836800]).cast(pa.decimal128(21, 2)),
        "view": pa.array(["2020-01-01"]).cast(pa.string_view()),
    }
    for name, column in columns.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"user": [1], "item": [1], "time": column}), path)
        data = load(path)
        assert data.times is not None
        assert data.times.tolist() == [1577836800], name


def test_a_rating_may_be_a_yes(tmp_path: Path) -> None:
    data = load(
        pa.table({"user": [1, 1], "item": [1, 2], "liked": [True, False]}),
        ReadOptions(rating="liked"),
    )
    assert data.ratings is not None
    assert data.ratings.tolist() == [1, 0]


def test_a_packed_parquet_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": [1], "item": [2]}), tmp_path / "a.parquet")
    packed = tmp_path / "a.parquet.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    assert len(load(packed)) == 1


def test_enums_of_polars() -> None:
    users = pl.Series(["b", "a"], dtype=pl.Enum(["a", "b"]))
    data = load(pl.DataFrame({"user": users, "item": [1, 2]}))
    assert data.users["user"].to_pylist() == ["b", "a"]


def test_numbers_too_large_for_a_frame_give_a_clear_error() -> None:
    with pytest.raises(InputError, match="more than 64 bits. Convert them to text"):
        load(pd.DataFrame({"user": [2**70], "item": [1]}))
