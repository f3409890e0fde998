from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.data import Columns, load
from whence.data.sources import reload
from whence.errors import InputError


def csv(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "events.csv"
    path.write_text(text)
    return path


def test_columns_are_guessed(tmp_path: Path) -> None:
    text = "userId,movieId,rating,timestamp,title\n7,31,4.5,20,B\n7,30,3,10,A\n9,31,1,5,B\n"
    data = load(csv(tmp_path, text))
    assert data.users["user"].to_pylist() == [7, 9]
    assert data.catalog.raw_ids(data.items) == [30, 31, 31]
    assert data.catalog.labels(data.items) == ["A", "B", "B"]
    assert data.times is not None
    assert data.times.tolist() == [10, 20, 5]
    assert data.ratings is not None
    assert data.ratings.tolist() == [3, 4.5, 1]


def test_columns_are_told_and_times_may_be_dates(tmp_path: Path) -> None:
    text = "who,what,when\nann,x,2020-01-02 00:00:00\nann,y,2020-01-01 00:00:00\n"
    data = load(csv(tmp_path, text), Columns(user="who", item="what", time="when"))
    assert data.catalog.raw_ids(data.items) == ["y", "x"]
    assert data.times is not None
    assert np.diff(data.times).tolist() == [86_400]


def test_without_times_the_rows_are_in_order(tmp_path: Path) -> None:
    data = load(csv(tmp_path, "user,item\nb,2\na,9\nb,1\n"))
    assert data.times is None
    assert data.catalog.raw_ids(data.history(data.find_user("b"))) == [2, 1]


def test_it_can_be_read_again_from_its_origin(tmp_path: Path) -> None:
    path = csv(tmp_path, "who,what\na,1\nb,2\n")
    data = load(path, Columns(user="who", item="what"))
    assert reload(data.origin).content_hash == data.content_hash


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("user,item\n", "a header and no rows"),
        ("user,thing\n1,2\n", "which column is the item.*--item NAME.*user, thing"),
        ("user,item\n1,2\n1\n", r"[Rr]ow #3"),
        ("user,item\n1,2\n,3\n", "row 3, column 'user': there is no value"),
        (
            "user,item,time\n1,2,5\n1,3,soon\n",
            "row 3, column 'time': 'soon' is not seconds or a date",
        ),
        ("user,item,rating\n1,2,good\n", "row 2, column 'rating': 'good' is not a number"),
        ("user,item,rating\n1,2,nan\n", "row 2, column 'rating': nan is no number"),
        ("user,item,rating\n1,2,inf\n", "row 2, column 'rating': inf is no number"),
        ("user,item,time\n1,2,5\n1,3,\n", "row 3, column 'time': there is no value"),
        ("user,item,time\n1,2,1e300\n", "row 2, column 'time': 1e\\+300 is no time"),
        (
            "user,item,time\n1,2,12:30:00\n",
            "row 2, column 'time': '12:30:00' is not seconds or a date",
        ),
        (
            "user,item,time\n1,2,2020-01-01\n1,3,2020-01-02\n1,4,unknown\n",
            "row 4, column 'time': 'unknown' is not seconds or a date",
        ),
        (
            "user,item,time\n1,2,2020-01-01 00:00:00\n1,3,2020-01-02 00:00:00+00:00\n",
            "row 3, column 'time': '2020-01-02 00:00:00.*' is written otherwise than '2020-01-01",
        ),
        ("user;item\n1;2\n", "separated by ';'"),
        ("user,item,rating\n1,2,2020-01-01\n", "row 2, column 'rating'.*is not a number"),
        ("user,item,user\n1,2,3\n", "two columns 'user'"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load(csv(tmp_path, text))


def test_a_wrong_column_names_those_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column 'who' for the user; it has user, item"):
        load(csv(tmp_path, "user,item\n1,2\n"), Columns(user="who"))


def test_undecodable_bytes_are_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(b"user,item,title\n1,2,caf\xe9\n")
    with pytest.raises(InputError, match="events.csv.*UTF"):
        load(path)


def test_a_header_that_is_not_utf8_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(b"user,item,caf\xe9\n1,2,3\n")
    with pytest.raises(InputError, match="is not UTF-8"):
        load(path)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["007", "7"], ["007", "7"]),
        (["0394758285", "1"], ["0394758285", "1"]),
        ([str(10**25), str(10**25 + 1)], [str(10**25), str(10**25 + 1)]),
        (["-3", "12"], [-3, 12]),
        (["NA", "null"], ["NA", "null"]),
        (["[a]", " b "], ["[a]", " b "]),
    ],
)
def test_ids_come_out_as_they_went_in(
    tmp_path: Path, written: list[str], read: list[object]
) -> None:
    data = load(csv(tmp_path, "user,item\n" + "".join(f"{one},x\n" for one in written)))
    assert data.users["user"].to_pylist() == read
    assert [data.find_user(one) for one in written] == [0, 1]


def test_a_guess_can_be_refused_and_is_recorded(tmp_path: Path) -> None:
    path = csv(tmp_path, "user,item,rating\n1,2,\n")
    with pytest.raises(InputError, match="there is no value"):
        load(path)
    data = load(path, Columns(rating="none"))
    assert data.ratings is None
    expected = {"user": "user", "item": "item", "time": "none", "rating": "none", "title": "none"}
    assert data.origin["columns"] == expected


cells = st.one_of(
    st.sampled_from(
        ["1", "-2", "0.5", "x", "", "nan", "2020-01-01", "12:30", "1e400", '"', "'", "é"]
    ),
    st.text(max_size=5),
)
lines = st.lists(st.lists(cells, min_size=1, max_size=5).map(",".join), max_size=6)
headers = st.lists(
    st.sampled_from(["user", "item", "time", "rating", "title", "user", "other", ""]), max_size=6
).map(",".join)


@given(content=st.one_of(st.tuples(headers, lines), st.binary(max_size=100)))
def test_no_file_makes_a_traceback(
    content: tuple[str, list[str]] | bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "events.csv"
    if isinstance(content, tuple):
        header, body = content
        content = "\n".join(["user,item," + header, *body]).encode(errors="replace")
    path.write_bytes(content)
    try:
        load(path)
    except InputError as problem:
        assert "events.csv" in str(problem)


def test_names_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no dataset of that name: did you mean 'world'"):
        load("wrld")
    with pytest.raises(InputError, match="a folder without prepared data"):
        load(tmp_path)


@pytest.mark.needs("demo")
def test_the_embedded_default() -> None:
    data = load("ml-latest-small-2016")
    assert (len(data), data.user_count, data.item_count) == (100_004, 671, 9_066)
    titles = data.catalog.labels(range(data.item_count))
    assert sum(title.startswith("item ") for title in titles) == 5, "films without a title"
    typed = ["toy story", "Heat", "the heat", "se7en"]
    assert data.catalog.labels([data.catalog.find(text) for text in typed]) == [
        "Toy Story (1995)",
        "Heat (1995)",
        "Heat, The (2013)",
        "Seven (a.k.a. Se7en) (1995)",
    ]
    assert data.verb == "watched"
