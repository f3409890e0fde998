from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from whence.data import ReadOptions, load
from whence.data.origins import reload
from whence.errors import InputError


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "ratings.csv"
    path.write_text("userId,movieId,rating\n7,31,5\n7,30,4\n9,31,3\n")
    return path


def test_items_and_users_travel_along(events: Path, tmp_path: Path) -> None:
    (tmp_path / "movies.csv").write_text(
        "movieId,title,genres,year\n30,1984,Drama,1984\n99,Unseen,Drama,1999\n31,Heat,Crime|Drama,\n"
    )
    (tmp_path / "users.csv").write_text("userId,age,zip\n7,40,02139\n")
    reading = ReadOptions(items=str(tmp_path / "movies.csv"), users=str(tmp_path / "users.csv"))
    data = load(events, reading)
    assert data.catalog.table.to_pylist() == [
        {"item": 31, "title": "Heat", "genres": "Crime|Drama", "year": None},
        {"item": 30, "title": "1984", "genres": "Drama", "year": 1984},
    ]
    assert data.users.to_pylist() == [
        {"user": 7, "age": 40, "zip": "02139"},
        {"user": 9, "age": None, "zip": None},
    ]
    again = reload(data.origin)
    assert again.content_hash == data.content_hash
    saved = load(data.save(tmp_path / "prepared"))
    assert saved.catalog.table.equals(data.catalog.table)
    assert saved.users.equals(data.users)


def test_ids_of_two_kinds_still_meet(events: Path, tmp_path: Path) -> None:
    (tmp_path / "movies.json").write_text(
        '{"movieId": "31", "title": "Heat"}\n{"movieId": "31", "title": "Second"}\n'
    )
    data = load(events, ReadOptions(items=str(tmp_path / "movies.json")))
    assert data.catalog.labels([0, 1]) == ["Heat", "item 30"]


def test_a_file_without_the_id_gives_a_clear_error(events: Path, tmp_path: Path) -> None:
    (tmp_path / "movies.csv").write_text("film,title\n31,Heat\n")
    with pytest.raises(InputError, match="movies.csv: which column is the item.*film, title"):
        load(events, ReadOptions(items=str(tmp_path / "movies.csv")))
    with pytest.raises(InputError, match="There is no file"):
        load(events, ReadOptions(items=str(tmp_path / "absent.csv")))


def test_a_file_without_rows_gives_a_clear_error(events: Path, tmp_path: Path) -> None:
    (tmp_path / "movies.csv").write_text("movieId,title\n")
    with pytest.raises(InputError, match="movies.csv has no rows. It needs a row for each item"):
        load(events, ReadOptions(items=str(tmp_path / "movies.csv")))


def test_the_title_of_the_items_can_be_given(events: Path, tmp_path: Path) -> None:
    (tmp_path / "movies.csv").write_text(
        "movieId;bezeichnung;genre\n31;Heat;Crime\n30;Café;Drama\n"
    )
    reading = ReadOptions(items=str(tmp_path / "movies.csv"), title="bezeichnung")
    data = load(events, reading)
    assert data.catalog.labels([0, 1]) == ["Heat", "Café"]
    assert reload(data.origin).content_hash == data.content_hash
    with pytest.raises(InputError, match="movies.csv has no column 'name' for the title"):
        load(events, ReadOptions(items=str(tmp_path / "movies.csv"), title="name"))
    refused = load(events, ReadOptions(items=str(tmp_path / "movies.csv"), title="none"))
    assert "title" not in refused.catalog.table.column_names


def test_a_table_of_other_items_gives_a_clear_error(events: Path, tmp_path: Path) -> None:
    (tmp_path / "movies.csv").write_text("movieId,title\nA31,Heat\n")
    with pytest.raises(InputError, match="No item .* look like A31, those of the events like 31"):
        load(events, ReadOptions(items=str(tmp_path / "movies.csv")))


def test_features_from_a_frame(events: Path) -> None:
    names = pd.DataFrame({"movieId": [31, 30], "title": ["Heat", "Café"]})
    data = load(events, ReadOptions(items=names))
    assert data.catalog.labels([0, 1]) == ["Heat", "Café"]
    assert data.origin["reading"]["items"] == "a table in memory"
    with pytest.raises(InputError, match="came from memory"):
        reload(data.origin)


def test_items_in_another_encoding_than_the_events(events: Path, tmp_path: Path) -> None:
    (tmp_path / "movies.csv").write_bytes("movieId,title\n31,Café\n".encode("cp1252"))
    events.write_text("userId,movieId,title\nü,31,\n", encoding="utf-8")
    data = load(
        events, ReadOptions(items=str(tmp_path / "movies.csv"), encoding="cp1252", title="none")
    )
    assert data.users["user"].to_pylist() == ["ü"]


def test_items_without_a_header_begin_with_id_and_title(tmp_path: Path) -> None:
    (tmp_path / "ratings.dat").write_text("1::2::5::978300760\n1::3::5::978300761\n")
    (tmp_path / "movies.dat").write_text("2::Heat::Crime\n3::Fargo::Crime|Drama\n")
    data = load(tmp_path / "ratings.dat", ReadOptions(items=str(tmp_path / "movies.dat")))
    assert data.catalog.labels([0, 1]) == ["Heat", "Fargo"]
