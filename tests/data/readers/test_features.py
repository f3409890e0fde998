from __future__ import annotations

from pathlib import Path

import pytest

from whence.data import Reading, load
from whence.data.sources import reload
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
    reading = Reading(items=str(tmp_path / "movies.csv"), users=str(tmp_path / "users.csv"))
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
    data = load(events, Reading(items=str(tmp_path / "movies.json")))
    assert data.catalog.labels([0, 1]) == ["Heat", "item 30"]


def test_a_file_without_the_id_is_one_sentence(events: Path, tmp_path: Path) -> None:
    (tmp_path / "movies.csv").write_text("film,title\n31,Heat\n")
    with pytest.raises(InputError, match="movies.csv: which column is the item.*film, title"):
        load(events, Reading(items=str(tmp_path / "movies.csv")))
    with pytest.raises(InputError, match="There is no file"):
        load(events, Reading(items=str(tmp_path / "absent.csv")))
