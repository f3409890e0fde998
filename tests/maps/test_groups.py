from __future__ import annotations

import pyarrow as pa
import pytest

import whence
from whence.data.catalog import Catalog
from whence.errors import InputError
from whence.maps import ages_of, genres_of


def test_genres_are_read_from_the_catalog() -> None:
    texts = ["Drama|Horror", None, "Horror", "(no genres listed)", ""]
    found = genres_of(Catalog(pa.table({"item": range(5), "genres": pa.array(texts)})))
    assert found.names == ("Drama", "Horror")
    assert found.member.tolist() == [[1, 1], [0, 0], [0, 1], [0, 0], [0, 0]]
    assert found.texts() == ["Drama, Horror", "", "Horror", "", ""]
    assert found.known().tolist() == [True, False, True, False, False]
    none = genres_of(Catalog(pa.table({"item": [1], "genres": pa.array([None], pa.string())})))
    assert none.member.shape == (1, 0)
    with pytest.raises(InputError, match="have no genres"):
        genres_of(Catalog(pa.table({"item": [1]})))


def test_ages_come_in_the_bands_of_movielens() -> None:
    """Its own codes are the first years of the bands."""
    codes = [1, 18, 25, 35, 45, 50, 56]
    found = ages_of(pa.table({"user": range(7), "age": codes}))
    expected = ["under 18", "18–24", "25–34", "35–44", "45–49", "50–55", "56 and over"]
    assert found.texts() == list(found.names) == expected
    years = ages_of(pa.table({"user": range(5), "age": ["17", "24", "55", "99", None]}))
    assert years.texts() == ["under 18", "18–24", "50–55", "56 and over", ""]
    with pytest.raises(InputError, match="have no ages"):
        ages_of(pa.table({"user": [1]}))
    with pytest.raises(InputError, match="must hold numbers only"):
        ages_of(pa.table({"user": [1], "age": ["old"]}))


@pytest.mark.needs("data")
@pytest.mark.parametrize(("name", "oldest"), [("ml-1m-ncf", 380), ("ml-100k", 52)])
def test_movielens_tells_ages_and_genres(name: str, oldest: int) -> None:
    data = whence.load(name)
    ages, genres = ages_of(data.users), genres_of(data.catalog)
    assert ages.known().all()
    assert ages.member[:, -1].sum() == oldest
    assert {"Horror", "Children's", "Action"} <= set(genres.names)
