"""Delimited files of other layouts: separators, quoting, encodings and rows that are wrong."""

from __future__ import annotations

import csv as python_csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.data import ReadOptions, load
from whence.data.interactions import DUPLICATES
from whence.errors import InputError


def csv(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "events.csv"
    path.write_text(text)
    return path


def test_another_encoding_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes("user,item,title\n1,2,Café\n".encode("latin-1"))
    with pytest.raises(
        InputError, match="row 2, is not valid utf-8. Give --encoding cp1252 or latin-1"
    ):
        load(path)
    assert load(path, ReadOptions(encoding="latin-1")).catalog.labels([0]) == ["Café"]
    with pytest.raises(InputError, match="There is no encoding 'klingon'"):
        ReadOptions(encoding="klingon")


def test_undecodable_bytes_far_into_the_file_give_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    rows = b"".join(b"%d,%d\n" % (row, row) for row in range(50_000))
    path.write_bytes(b"user,item\n" + rows + b"caf\xe9,1\n")
    with pytest.raises(InputError, match="events.csv, row 50002, is not valid utf-8"):
        load(path)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (["978300760", "978300761"], [978300760, 978300761]),
        (["1583020799123", "1583020799999"], [1583020799, 1583020799]),
        (["1583020799123456", "1583020800000000"], [1583020799, 1583020800]),
        (["1583020799123456789", "1583020800000000000"], [1583020799, 1583020800]),
        (["1583020799.25", "1583020799.75"], [1583020799, 1583020799]),
        (["-86400", "0"], [-86400, 0]),
        (["2020-02-29", "2020-03-01"], [1582934400, 1583020800]),
        (["2020-02-29T23:59:59Z", "2020-03-01T00:00:00Z"], [1583020799, 1583020800]),
        (["2020-02-29 23:59:59.5", "2020-03-01 00:00:00"], [1583020799, 1583020800]),
        (["2020-03-01T00:59:59+01:00", "2020-03-01T01:00:00+01:00"], [1583020799, 1583020800]),
        (["1969-12-31", "1970-01-01"], [-86400, 0]),
    ],
)
def test_times_in_every_writing(tmp_path: Path, written: list[str], seconds: list[int]) -> None:
    """And the finer order decides: the rows are written backwards."""
    rows = "".join(f"u,{item},{time}\n" for item, time in reversed(list(enumerate(written))))
    data = load(csv(tmp_path, "user,item,time\n" + rows))
    assert data.times is not None
    assert data.times.tolist() == seconds
    assert data.catalog.raw_ids(data.items) == [0, 1]


def test_equal_rows_are_dropped_and_counted(tmp_path: Path) -> None:
    text = "user,item,rating,time\n1,2,5,10\n1,3,5,10\n1,2,5,10\n1,2,4,10\n1,2,5,11\n1,2,5,10\n"
    data = load(csv(tmp_path, text))
    assert data.catalog.raw_ids(data.items) == [2, 3, 2, 2]
    assert data.filters == ({"what": DUPLICATES, "dropped": 2},)
    assert len(load(csv(tmp_path, text), ReadOptions(keep_duplicates=True))) == 6
    assert len(load(csv(tmp_path, "user,item\n1,2\n1,2\n"))) == 2, "nothing tells them apart"


def test_a_column_of_dates_is_the_time_whatever_its_name(tmp_path: Path) -> None:
    text = "kunde;artikel;datum;menge\n1;2;2020-01-02;5\n1;3;2020-01-01;7\n"
    data = load(csv(tmp_path, text), ReadOptions(user="kunde", item="artikel"))
    assert data.catalog.raw_ids(data.items) == [3, 2]
    assert data.origin["reading"]["time"] == "datum"
    untimed = load(csv(tmp_path, text), ReadOptions(user="kunde", item="artikel", time="none"))
    assert untimed.times is None


def test_columns_may_be_given_by_number_although_they_have_names(tmp_path: Path) -> None:
    data = load(csv(tmp_path, "who,what\n1,2\n"), ReadOptions(user="1", item="2"))
    assert data.origin["reading"]["user"] == "who"
    with pytest.raises(InputError, match="no column '3' for the user"):
        load(csv(tmp_path, "who,what\n1,2\n"), ReadOptions(user="3", item="2"))


def test_one_column_is_not_both(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'who' cannot be both user and item"):
        load(csv(tmp_path, "who,what\n1,2\n"), ReadOptions(user="who", item="who"))


def test_utf8_is_read_as_such_whatever_encoding_is_given(tmp_path: Path) -> None:
    """So that events and items may be in two encodings."""
    path = tmp_path / "events.csv"
    path.write_text("user,item,title\nü,2,Café\n", encoding="utf-8")
    assert load(path, ReadOptions(encoding="latin-1")).catalog.labels([0]) == ["Café"]


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ('user,item\n1,"2\n1,3\n', 2),
        ('user,item,title\n1,2,"Heroes\n3,4,foo\n5,6,"Low\n', 2),
        ('user,item,title\n1,2,a\n3,4,"say "hi" now"\n', 3),
        ('user,item,title\n1,2,"a"b\n', 2),
    ],
)
def test_a_quote_that_is_not_closed_swallows_nothing(tmp_path: Path, text: str, row: int) -> None:
    with pytest.raises(InputError, match=rf"events.csv, row {row}: a quote .* is not closed"):
        load(csv(tmp_path, text))


def test_a_quote_far_into_a_long_file_swallows_nothing(tmp_path: Path) -> None:
    rows = ["1,2"] * 4_000_000
    rows[3_000_000] = '1,"2'
    with pytest.raises(InputError, match="row 3000002: a quote"):
        load(csv(tmp_path, "user,item\n" + "\n".join(rows)))


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ('user,item,title\n1,2,5" disc\n1,3,a "b" c\n', ['5" disc', 'a "b" c']),
        ('user\titem\ttitle\n1\t2\t"Heroes\n1\t3\tLow\n', ['"Heroes', "Low"]),
        ('user\titem\ttitle\n1\t2\t"a\tb"\n1\t3\tLow\n', ["a\tb", "Low"]),
        ('"user","item","title"\n"1","2","a ""b"""\n"1","3",""\n', ['a "b"', "item 3"]),
    ],
)
def test_quotes_that_are_letters_and_quotes_that_are_not(
    tmp_path: Path, text: str, titles: list[str]
) -> None:
    data = load(csv(tmp_path, text))
    assert data.catalog.labels([0, 1]) == titles
    assert data.users["user"].to_pylist() == [1]


cell = st.text(st.sampled_from('ab1",;\n\t é'), min_size=1, max_size=6)


@given(
    rows=st.lists(st.tuples(cell, cell, cell), min_size=1, max_size=8),
    separator=st.sampled_from(",;\t|"),
)
def test_whatever_python_writes_is_read_back(
    rows: list[tuple[str, str, str]], separator: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("csv") / "events.csv"
    with path.open("w", newline="") as file:
        writer = python_csv.writer(file, delimiter=separator, quoting=python_csv.QUOTE_ALL)
        writer.writerows([("user", "item", "title"), *(("u" + u, "i" + i, t) for u, i, t in rows)])
    data = load(path)
    assert len(data) == len(rows)
    expected = {"i" + i for _, i, _ in rows}
    assert set(data.catalog.raw_ids(range(data.item_count))) == expected
    assert set(data.users["user"].to_pylist()) == {"u" + u for u, _, _ in rows}


def test_decimal_commas_do_not_separate(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"column '3': '3,5' is not a number \(write 3.5\)"):
        load(csv(tmp_path, "1;2;3,5\n1;3;4,0\n"), ReadOptions(rating="3"))
    assert load(csv(tmp_path, "1;2;3,5\n1;3;4,0\n")).users["user"].to_pylist() == [1]


def test_ids_that_begin_like_names_are_not_a_header(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="are user1, item1 .if that is an event"):
        load(csv(tmp_path, "user1,item1\nuser1,item2\n"))
    data = load(csv(tmp_path, "user1 item1 item2\nuser2 item5 item6\n"))
    assert (data.user_count, len(data)) == (2, 4)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1,2,5,978300762\n1,3,4,978300761\n1,4,4,\n", "row 3, column '4': the value is missing"),
        ("1,2,5,978300762\n1,3,x,978300761\n1,4,4,978300763\n", "row 2, column '3': 'x' is not"),
    ],
)
def test_one_odd_cell_does_not_hide_a_column(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load(csv(tmp_path, text))


@pytest.mark.parametrize(
    ("times", "row"),
    [
        (["1500000000", "1500000001", "9999999999999"], 4),
        (["1500000000000", "1500000001000", "1500000002"], 4),
        (["1500000000.5", "1500000001000.5", "1500000002"], 3),
    ],
)
def test_two_units_of_time_are_not_read_as_one(tmp_path: Path, times: list[str], row: int) -> None:
    text = "user,item,time\n" + "".join(f"1,2,{time}\n" for time in times)
    with pytest.raises(InputError, match=f"row {row}, column 'time': .* in another unit of time"):
        load(csv(tmp_path, text))


def test_a_time_of_zero_is_a_time(tmp_path: Path) -> None:
    data = load(csv(tmp_path, "user,item,time\n1,2,0\n1,3,1500000000000\n1,4,1500000000001\n"))
    assert data.times is not None
    assert data.times.tolist() == [0, 1_500_000_000, 1_500_000_000]


def test_nanoseconds_decide_the_order(tmp_path: Path) -> None:
    stamp = "2020-01-01 00:00:00.00000000"
    data = load(
        csv(tmp_path, f"user,item,time\n1,late,{stamp}2\n1,early,{stamp}1\n1,early,{stamp}3\n")
    )
    assert data.catalog.raw_ids(data.items) == ["early", "late", "early"]


def test_undecodable_bytes_in_a_given_encoding_give_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    rows = b"".join(b"%d,%d\n" % (row, row) for row in range(50_000))
    path.write_bytes(b"user,item\n" + rows + b"\x81,1\n")
    with pytest.raises(InputError, match="events.csv is not valid cp1252"):
        load(path, ReadOptions(encoding="cp1252"))
    path.write_bytes(rows.replace(b",", b" ") + b"\x81 1\n")
    with pytest.raises(InputError, match="events.csv is not valid cp1252"):
        load(path, ReadOptions(encoding="cp1252"))
    with pytest.raises(InputError, match="There is no encoding 'undefined'"):
        ReadOptions(encoding="undefined")
