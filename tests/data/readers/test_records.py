from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.data import ReadOptions, load
from whence.data.readers.records import RecordFile, parse_json, parse_literal

AMAZON = [
    {"reviewerID": "A1", "asin": "0439886341", "reviewerName": "x", "helpful": [1, 2],
     "reviewText": "fun", "overall": 4.0, "summary": "ok", "unixReviewTime": 1366588800,
     "reviewTime": "04 22, 2013"},
    {"reviewerID": "A1", "asin": "B00000IV95", "helpful": [0, 0], "reviewText": "no",
     "overall": 1.0, "summary": "bad", "unixReviewTime": 1252800000, "reviewTime": "09 13, 2009"},
]  # fmt: skip
STEAM = [
    "{u'username': u'Chaos Syren', u'hours': 0.1, u'products': 41, u'product_id': u'725280', "
    "u'page_order': 0, u'date': u'2017-12-17', u'text': u'It\\'s \"fun\" \\u2713', "
    "u'early_access': False, u'page': 1}",
    "{u'username': u\"Ariman's\", u'hours': 13.2, u'user_id': u'76', u'product_id': u'328100', "
    "u'date': u'2017-08-02', u'text': u'x', u'compensation': None, u'early_access': True}",
]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_amazon_reviews(tmp_path: Path) -> None:
    data = load(write(tmp_path / "reviews_Video_Games_5.json", [json.dumps(one) for one in AMAZON]))
    assert data.users["user"].to_pylist() == ["A1"]
    assert data.catalog.raw_ids(data.items) == ["B00000IV95", "0439886341"]
    assert data.times is not None
    assert data.times.tolist() == [1252800000, 1366588800]
    assert data.ratings is not None
    assert data.ratings.tolist() == [1, 4]


def test_amazon_reviews_of_2023_have_milliseconds_and_titles_of_reviews(tmp_path: Path) -> None:
    record = {"rating": 4.0, "title": "It's pretty sexual", "text": "…", "images": [],
              "asin": "B07DJWBYKP", "parent_asin": "B07DK1H3H5", "user_id": "AGCI7",
              "timestamp": 1608186804795, "helpful_vote": 0, "verified_purchase": True}  # fmt: skip
    data = load(write(tmp_path / "Video_Games.jsonl", [json.dumps(record)]))
    assert data.times is not None
    assert data.times.tolist() == [1608186804]
    assert "title" not in data.catalog.table.column_names


def test_steam_reviews(tmp_path: Path) -> None:
    """The key user_id is in some records alone, so it is not the user."""
    data = load(write(tmp_path / "steam_reviews.json", STEAM))
    assert data.users["user"].to_pylist() == ["Chaos Syren", "Ariman's"]
    assert data.catalog.raw_ids(data.items) == ["725280", "328100"]
    assert data.times is not None
    assert data.times.tolist() == [1513468800, 1501632000]


@pytest.mark.parametrize("parse", [parse_json, parse_literal])
def test_arrow_and_line_by_line_agree(tmp_path: Path, parse: object) -> None:
    rows = [
        {"user": n % 7, "item": f"é{n % 11}", "time": 100.5 + n, "more": [n]} for n in range(99)
    ]
    path = write(tmp_path / "a.json", [json.dumps(row) for row in rows])
    file = RecordFile(path, ReadOptions(), parse)  # type: ignore[arg-type]
    columns = ["user", "item", "time"]
    assert file._by_line(columns, ["user", "item"]).equals(file.read(columns, ["user", "item"]))


def test_json_ids_of_any_kind(tmp_path: Path) -> None:
    rows = [
        {"user": 10**25, "item": 1},
        {"user": -7, "item": "1"},
        {"user": "x", "item": 2},
    ]
    data = load(write(tmp_path / "a.json", [json.dumps(row) for row in rows]))
    assert data.users["user"].to_pylist() == [str(10**25), "-7", "x"]
    assert data.catalog.raw_ids([0, 1]) == ["1", "2"]
    assert data.find_user(-7) == 1


def test_ids_written_as_floats_are_the_same_ids_wherever_they_stand(tmp_path: Path) -> None:
    lines = ['{"user": 10000000000, "item": "a"}'] * 65_536 + ['{"user": 10000000000.0, "item": 1}']
    data = load(write(tmp_path / "a.json", lines))
    assert data.user_count == 1
    data = load(
        write(tmp_path / "b.json", ['{"user": 7, "item": 1}', '{"user": "7", "item": 1.0}'])
    )
    assert data.users["user"].to_pylist() == ["7"]
    assert data.catalog.raw_ids([0]) == [1]


def test_a_long_first_record(tmp_path: Path) -> None:
    record = {"user": 1, "item": 2, "text": "long " * 50_000}
    assert len(load(write(tmp_path / "a.json", [json.dumps(record)] * 3))) == 3


def test_json_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes('{"user": "é", "item": 2}\n'.encode("latin-1"))
    assert load(path, ReadOptions(encoding="latin-1")).users["user"].to_pylist() == ["é"]


def test_ids_that_become_texts_far_into_the_file_are_texts_from_the_start(tmp_path: Path) -> None:
    lines = ['{"user": 1, "item": 5}'] * 65_536 + ['{"user": "a", "item": 5}']
    data = load(write(tmp_path / "a.json", lines))
    assert data.users["user"].to_pylist() == ["1", "a"]


def test_numbers_may_be_whole_in_one_part_and_not_in_the_next(tmp_path: Path) -> None:
    lines = ['{"user": 1, "item": 5, "rating": 3}'] * 65_536 + [
        '{"user": 1, "item": 5, "rating": 2.5}'
    ]
    data = load(write(tmp_path / "a.json", lines))
    assert data.ratings is not None
    assert data.ratings[-2:].tolist() == [3, 2.5]


plain = st.one_of(
    st.text(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
)


@given(record=st.dictionaries(st.text(), st.one_of(plain, st.lists(plain, max_size=2))))
def test_literals_are_read_as_python_reads_them(record: dict[str, object]) -> None:
    written = repr(record)
    assert parse_literal(written) == ast.literal_eval(written) == record


@given(text=st.text(st.sampled_from("{}'\":,u\\n 0.1-aTrue"), max_size=40))
def test_nothing_is_read_that_python_would_not_read(text: str) -> None:
    line = "{'a': 1" + text
    try:
        expected = ast.literal_eval(line.strip())
    except Exception:
        with pytest.raises((ValueError, SyntaxError, TypeError, MemoryError, RecursionError)):
            parse_literal(line)
    else:
        assert parse_literal(line) == expected
