from __future__ import annotations

import contextlib
import re
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from whence.data import Catalog
from whence.errors import InputError

FILMS = [
    (31, "Matrix, The (1999)"),
    (47, "Toy Story (1995)"),
    (50, "Toy Story 2 (1999)"),
    (58, "Hamlet (1990)"),
    (59, "Hamlet (1996)"),
    (70, "Amelie (Fabuleux destin d'Amélie Poulain, Le) (2001)"),
    (71, "Amelia (2009)"),
    (80, None),
    (99, "47 (2010)"),
    (100, "(500) Days of Summer (2009)"),
    (101, "Seven (a.k.a. Se7en) (1995)"),
    (102, "Star Wars: Episode IV (1977)"),
    (103, "Star Wars: Episode V (1980)"),
    (104, "Star Maps (1997)"),
    (105, "Twin (2000)"),
    (106, "Twin (2000)"),
]


@pytest.fixture
def catalog() -> Catalog:
    ids, titles = zip(*FILMS, strict=True)
    return Catalog(pa.table({"item": pa.array(ids), "title": pa.array(titles, pa.string())}))


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("31", 31),
        ("47", 47),  # an id goes before a title
        ("Toy Story (1995)", 47),
        ("toy story", 47),
        ("TOY  STORY!", 47),
        ("the matrix", 31),
        ("matrix", 31),
        ("Amelie", 70),
        ("amélie", 70),
        ("Toy Stroy", 47),
        ("hamlet (1996)", 59),
        ("hamlet 1996", 59),
        ("star wars 1980", 103),
        ("se7en", 101),
        ("500 days of summer", 100),
        ("summer days", 100),
    ],
)
def test_finds_what_is_meant(catalog: Catalog, typed: str, found: int) -> None:
    assert catalog.raw_ids([catalog.find(typed)]) == [found]


def test_an_ambiguous_title_gets_suggestions(catalog: Catalog) -> None:
    with pytest.raises(
        InputError,
        match=r"'Hamlet \(1990\)' \(id 58\), 'Hamlet \(1996\)' \(id 59\)\. Give the full",
    ):
        catalog.find("Hamlet")


def test_a_wrong_title_gets_suggestions(catalog: Catalog) -> None:
    with pytest.raises(InputError, match=r"No item matches 'toy stormy night'.*Toy Story"):
        catalog.find("toy stormy night")
    for nothing in ("zzz", "!!!", ""):
        with pytest.raises(InputError, match="No title is similar"):
            catalog.find(nothing)


def test_an_ambiguous_text_lists_the_most_popular_matches_first(catalog: Catalog) -> None:
    with pytest.raises(InputError, match=r"matches 2 items: 'Star Wars: Episode IV.*Episode V "):
        catalog.find("Star Wars")
    events = np.array([FILMS.index(film) for film in FILMS])  # the last is the most popular
    by_popularity = replace(catalog, popularity=events)
    with pytest.raises(InputError, match=r"matches 3 items: 'Star Maps.*Episode V .*Episode IV"):
        by_popularity.find("star")
    with pytest.raises(InputError, match=r"2 items: 'Twin \(2000\)' \(id 106\), .* \(id 105\)\."):
        by_popularity.find("twin")


def test_only_the_most_popular_matches_are_listed() -> None:
    table = pa.table({"item": range(8), "title": [f"The Film, part {n}" for n in range(8)]})
    with pytest.raises(InputError) as raised:
        Catalog(table, np.array([0, 9, 1, 8, 2, 7, 3, 6])).find("film")
    assert "'film' matches 8 items; the 5 most popular are" in str(raised.value)
    listed = re.findall(r"\(id (\d)\)", str(raised.value))
    assert listed == ["1", "3", "5", "7", "6"]


@pytest.mark.parametrize(
    ("typed", "found"), [("Matr", 31), ("THE MATR", 31), ("Toy Story 2", 50), ("toy story", 47)]
)
def test_an_exact_title_or_the_only_prefix_wins(catalog: Catalog, typed: str, found: int) -> None:
    popular = replace(catalog, popularity=np.arange(len(catalog)))
    assert popular.raw_ids([popular.find(typed)]) == [found]


def test_the_popularity_is_kept_with_the_table(catalog: Catalog) -> None:
    popular = replace(catalog, popularity=np.arange(len(catalog)))
    again = Catalog.from_table(popular.to_table())
    assert again.table.equals(catalog.table)
    assert again.popularity is not None
    assert again.popularity.tolist() == list(range(len(catalog)))
    assert Catalog.from_table(catalog.to_table()).popularity is None


def test_twins_are_distinguished_by_their_ids(catalog: Catalog) -> None:
    with pytest.raises(InputError, match=r"'Twin \(2000\)' \(id 105\), 'Twin \(2000\)' \(id 106\)"):
        catalog.find("Twin (2000)")
    assert catalog.raw_ids([catalog.find("106")]) == [106]


def test_labels_fall_back_to_the_id(catalog: Catalog) -> None:
    assert catalog.labels(np.array([7, 0])) == ["item 80", "Matrix, The (1999)"]


def test_text_ids_and_no_titles() -> None:
    catalog = Catalog(pa.table({"item": ["B00-x", "-7"]}))
    assert catalog.find("-7") == 1
    assert catalog.labels([0]) == ["item B00-x"]
    with pytest.raises(InputError, match="no titles"):
        catalog.find("Matrix")


@pytest.mark.parametrize(
    "part", ["1", " ", "(", "()", " (a)", ", ", ", a", " 1999", "(1999)", "a\u0316\u0300", "ab"]
)
def test_long_titles_and_questions_take_no_time(part: str) -> None:
    long = part * (10**6 // len(part))
    titles = [*(f"Film number {number} (1999)" for number in range(9_999)), long]
    catalog = Catalog(pa.table({"item": range(10_000), "title": titles}))
    began = time.process_time()
    for typed in ("film number 77", "Film number 9991 1999", f"film {part * 50_000}", long[:-1]):
        with contextlib.suppress(InputError):
            catalog.find(typed)
    assert catalog.find("film number 77") == 77
    assert catalog.find(long) == 9_999
    assert time.process_time() - began < 4


def test_many_years_are_no_deep_recursion(catalog: Catalog) -> None:
    with pytest.raises(InputError, match="No item matches"):
        catalog.find("nothing" + " 1999" * 10_000)


def test_bytes_that_are_no_text_match_nothing(catalog: Catalog) -> None:
    with pytest.raises(InputError, match="No item matches"):
        catalog.find("\udcff")
