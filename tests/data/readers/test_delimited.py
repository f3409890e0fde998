from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from whence.data import ReadOptions, load
from whence.data.origins import reload
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


def test_columns_are_given_and_times_may_be_dates(tmp_path: Path) -> None:
    text = "who,what,when\nann,x,2020-01-02 00:00:00\nann,y,2020-01-01 00:00:00\n"
    data = load(csv(tmp_path, text), ReadOptions(user="who", item="what", time="when"))
    assert data.catalog.raw_ids(data.items) == ["y", "x"]
    assert data.times is not None
    assert np.diff(data.times).tolist() == [86_400]


def test_without_times_the_rows_are_in_order(tmp_path: Path) -> None:
    data = load(csv(tmp_path, "user,item\nb,2\na,9\nb,1\n"))
    assert data.times is None
    assert data.catalog.raw_ids(data.history(data.find_user("b"))) == [2, 1]


def test_it_can_be_read_again_from_its_origin(tmp_path: Path) -> None:
    path = csv(tmp_path, "who,what\na,1\nb,2\n")
    data = load(path, ReadOptions(user="who", item="what"))
    assert reload(data.origin).content_hash == data.content_hash


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("user,item\n", "has no rows"),
        ("user,thing\n1,2\n", "which column is the item.*--item NAME.*user, thing"),
        ("user,item\n1,2\n1\n", "row 3: expected 2 columns, got 1: 1. Correct that row"),
        ("\n\nuser,item\n1,2\n1,\n", "row 5, column 'item': the value is missing"),
        ('user,item\n1,""\n', "row 2, column 'item': the value is missing"),
        ("1,2,3,4,5\n1\n", "row 2: expected 5 columns, got 1"),
        ("user,item\n1,2\n,3\n", "row 3, column 'user': the value is missing"),
        (
            "user,item,time\n1,2,5\n1,3,soon\n",
            "row 3, column 'time': 'soon' is not seconds or a date",
        ),
        ("user,item,rating\n1,2,good\n", "row 2, column 'rating': 'good' is not a number"),
        ("user,item,rating\n1,2,nan\n", "row 2, column 'rating': nan is not a finite number"),
        ("user,item,rating\n1,2,inf\n", "row 2, column 'rating': inf is not a finite number"),
        ("user,item,rating\n1,2,1e39\n", "row 2, column 'rating': 1e.39 is too large"),
        ("user,item,time\n1,2,5\n1,3,\n", "row 3, column 'time': the value is missing"),
        (
            "user,item,time\n1,2,-9223372036854775808\n",
            "row 2, column 'time': -9223.* is not a time",
        ),
        ("user,item,time\n1,2,1e300\n", "row 2, column 'time': 1e\\+300 is not a time"),
        (
            "user,item,time\n1,2,12:30:00\n",
            "row 2, column 'time': '12:30:00' is not seconds or a date",
        ),
        (
            "user,item,time\n1,2,2020-01-01\n1,3,2020-01-02\n1,4,unknown\n",
            "row 4, column 'time': 'unknown' is not a time like '2020-01-01'",
        ),
        (
            "user,item,time\n" + "1,2,2020-01-01\n" * 50 + "1,2,2020-02-30\n1,2,2020-01-02\n",
            "row 52, column 'time': '2020-02-30' is not a time like '2020-01-01'",
        ),
        (
            "user,item,time\n1,2,5\n1,2,5.5\n1,2,x\n",
            "row 4, column 'time': 'x' is not seconds or a date",
        ),
        ("user,item,rating\n1,2,4\n1,2,'4'\n", "row 3, column 'rating': ''4'' is not a number."),
        ('user,item,rating\n1,2,"4,5"\n', "'4,5' is not a number \\(write 4.5\\)"),
        ("user,item\n1,2\n  ,3\n", "row 3, column 'user': the value is missing"),
        (
            "user,item,ordered,shipped\n1,2,2020-01-01,2020-01-02\n",
            "which of ordered, shipped is the time",
        ),
        ("one\ntwo\n", "which column is the user"),
        ("user,item,rating\n1,2,2020-01-01\n", "row 2, column 'rating'.*is not a number"),
        ("user,item,user\n1,2,3\n", "two columns 'user'"),
    ],
)
def test_bad_files_give_a_clear_error(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load(csv(tmp_path, text))


def test_a_wrong_column_names_those_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column 'who' for the user. It has user, item"):
        load(csv(tmp_path, "user,item\n1,2\n"), ReadOptions(user="who"))


def test_undecodable_bytes_give_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(b"user,item,title\n1,2,caf\xe9\n")
    with pytest.raises(InputError, match="events.csv.*UTF"):
        load(path)


def test_a_header_that_is_not_utf8_gives_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(b"user,item,caf\xe9\n1,2,3\n")
    with pytest.raises(InputError, match="row 1, is not valid utf-8"):
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
    with pytest.raises(InputError, match="the value is missing"):
        load(path)
    data = load(path, ReadOptions(rating="none"))
    assert data.ratings is None
    expected = {"user": "user", "item": "item", "time": "none", "rating": "none", "title": "none"}
    assert data.origin["reading"] == expected
    assert reload(data.origin).ratings is None


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("1,2\n3,4\n", {"user": "1", "item": "2"}),
        ("1\t2\t5\t881250949\n", {"user": "1", "item": "2", "rating": "3", "time": "4"}),
        ("1::2::5::978300760\n", {"user": "1", "item": "2", "rating": "3", "time": "4"}),
        ("A2E,5555991584,5.0,978480000\n", {"user": "1", "item": "2", "rating": "3", "time": "4"}),
        ("a|2|1480000000000|3\n", {"user": "1", "item": "2", "time": "3", "rating": "4"}),
        ("a,2,2020-01-31 10:00\n", {"user": "1", "item": "2", "time": "3"}),
        ("1 2 5 881250949\n1 3 4 9e8\n", {"user": "1", "item": "2", "rating": "3", "time": "4"}),
        ("1,2,red\n", {"user": "1", "item": "2"}),
    ],
)  # fmt: skip
def test_without_a_header_columns_are_known_by_their_looks(
    tmp_path: Path, text: str, roles: dict[str, str]
) -> None:
    data = load(csv(tmp_path, text))
    said = {role: name for role, name in data.origin["reading"].items() if name != "none"}
    assert said == roles
    assert reload(data.origin).content_hash == data.content_hash


def test_columns_without_names_are_given_by_number(tmp_path: Path) -> None:
    """As the Amazon ratings of 2018 have them: the item first."""
    data = load(csv(tmp_path, "B01,A1,5.0,978480000\n"), ReadOptions(user="2", item="1"))
    assert data.users["user"].to_pylist() == ["A1"]
    assert data.catalog.raw_ids([0]) == ["B01"]
    with pytest.raises(InputError, match="which column is the user.*1, 2, 3, 4"):
        load(csv(tmp_path, "B01,A1,5.0,978480000\n"), ReadOptions(item="1"))


def test_words_in_the_first_row_may_be_an_event(tmp_path: Path) -> None:
    path = csv(tmp_path, "ann,apple\nbob,pear\n")
    with pytest.raises(InputError, match="which column is the user"):
        load(path)
    assert load(path, ReadOptions(header=False)).users["user"].to_pylist() == ["ann", "bob"]


@pytest.mark.parametrize("separator", [",", "\t", ";", "|", "::", " "])
def test_separators(tmp_path: Path, separator: str) -> None:
    rows = [["user", "item", "rating"], ["1", "2", "3.5"], ["1", "3", "4"]]
    data = load(csv(tmp_path, "\n".join(separator.join(row) for row in rows)))
    assert data.catalog.raw_ids(data.items) == [2, 3]
    assert data.ratings is not None
    assert data.ratings.tolist() == [3.5, 4]


def test_quotes_hold_separators_and_line_ends(tmp_path: Path) -> None:
    text = 'user,item,title\r\n1,2,"Heat, The\n(1995)"\r\n1,3,"say ""hi"""\r\n'
    data = load(csv(tmp_path, text))
    assert data.catalog.labels([0, 1]) == ["Heat, The\n(1995)", 'say "hi"']


def test_a_title_of_digits_is_a_title_and_the_first_one_counts(tmp_path: Path) -> None:
    data = load(csv(tmp_path, "user,item,title\n1,2,1984\n2,2,Other\n2,3,\n"))
    assert data.catalog.table["title"].to_pylist() == ["1984", None]
    assert data.catalog.labels([0, 1]) == ["1984", "item 3"]


def test_beside_a_text_the_title_is_the_reviews(tmp_path: Path) -> None:
    data = load(csv(tmp_path, "user_id,asin,title,text\nu,B0,Loved it,So good\n"))
    assert data.origin["reading"]["title"] == "none"
