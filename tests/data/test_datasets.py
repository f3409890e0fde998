"""Datasets known by name: the publishers' own layouts, made small, and the real files."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from whence.data import DATASETS, Interactions, Preparation, last_two, load, prepare, statistics
from whence.data.dataset_files import find_file
from whence.errors import InputError

PUBLISHED: dict[str, dict[str, str]] = {
    "ml-100k": {
        "events": "196\t242\t3\t881250949\n186\t302\t3\t891717742\n196\t302\t5\t881250000\n",
        "items": "242|Kolya (1996)|24-Jan-1997||http://us.imdb.com/?a=%20b|0|1|1\n"
        "302|Café (1997)|01-Jan-1997|||1|0|0\n",
        "users": "186|39|F|executive|00000\n196|49|M|writer|55105\n",
        "genres": "unknown|0\nA|1\nNoir|2\n\n",
    },
    "ml-1m": {
        "events": "1::1193::5::978300760\n1::661::3::978302109\n2::661::4::978300760\n",
        "items": '661::James: and "the" Peach (1996)::Animation|Children\'s\n'
        '1193::"Café" Society: one::Drama\n3000::Unrated::Comedy\n',
        "users": "1::F::1::10::01234\n2::M::56::16::70072-1\n",
    },
    "ml-10m": {
        "events": "1::122::5::838985046\n1::185::4.5::838983525\n",
        "items": "122::Boomerang: é (1992)::Comedy|Romance\n185::Net, The (1995)::Action\n",
    },
    "ml-25m": {
        "events": "userId,movieId,rating,timestamp\n1,296,5.0,1147880044\n1,306,3.5,1147868817\n",
        "items": 'movieId,title,genres\n296,"Pulp, Fiction (1994)",Comedy|Crime\n306,é,Drama\n',
    },
    "ml-1m-ncf": {
        "train": "0\t32\t4\t978824330\n0\t34\t4\t978824330\n1\t34\t3\t978301367\n",
        "test": "0\t25\t5\t978824330\n1\t133\t3\t978300174\n",
    },
    "s3rec-beauty": {
        "events": "1 1 2 3\n2 3 1\n",
        "attributes": json.dumps({"1": [4, 5], "3": []}),
    },
    "amazon-games-sasrec": {"events": "1 5\n1 6\n2 5\n"},
    "steam-sasrec": {
        "events": "".join(
            f"{{u'username': u'{user}', u'product_id': u'{item}', u'date': u'2017-12-{item:02}'}}\n"
            for user in range(6)
            for item in range(1, 7 if user < 5 else 3)
        )
    },
}
LATIN = {"ml-100k", "ml-1m"}


def read_published(name: str, folder: Path) -> Interactions:
    """The made-up files, by the reader of the publisher's own layout."""
    files = {}
    for use, text in PUBLISHED[name].items():
        files[use] = folder / f"{use}.txt"
        files[use].write_bytes(text.encode("latin-1" if name in LATIN else "utf-8"))
    return DATASETS[name].layouts[0].read(files)


def test_movielens_100k(tmp_path: Path) -> None:
    data = read_published("ml-100k", tmp_path)
    assert data.catalog.raw_ids(data.history(data.find_user(196))) == [302, 242]
    assert data.catalog.table.to_pylist() == [
        {"item": 242, "title": "Kolya (1996)", "release_date": "24-Jan-1997", "genres": "A|Noir"},
        {"item": 302, "title": "Café (1997)", "release_date": "01-Jan-1997", "genres": "unknown"},
    ]  # fmt: skip
    assert data.users.to_pylist()[1] == {
        "user": 186, "age": 39, "gender": "F", "occupation": "executive", "zip": "00000",
    }  # fmt: skip


def test_movielens_1m(tmp_path: Path) -> None:
    data = read_published("ml-1m", tmp_path)
    assert data.catalog.table.to_pylist() == [
        {"item": 1193, "title": '"Café" Society: one', "genres": "Drama"},
        {"item": 661, "title": 'James: and "the" Peach (1996)', "genres": "Animation|Children's"},
    ]  # fmt: skip
    assert data.users.to_pylist() == [
        {"user": 1, "gender": "F", "age": 1, "occupation": 10, "zip": "01234"},
        {"user": 2, "gender": "M", "age": 56, "occupation": 16, "zip": "70072-1"},
    ]
    assert data.ratings is not None
    assert data.ratings.tolist() == [5, 3, 4]
    assert data.verb == "watched"


def test_movielens_10m_and_25m(tmp_path: Path) -> None:
    ten, latest = (read_published(name, tmp_path) for name in ("ml-10m", "ml-25m"))
    assert ten.catalog.labels(ten.items) == ["Net, The (1995)", "Boomerang: é (1992)"]
    assert latest.catalog.labels(latest.items) == ["é", "Pulp, Fiction (1994)"]
    assert latest.ratings is not None
    assert latest.ratings.tolist() == [3.5, 5]


def test_the_split_of_ncf(tmp_path: Path) -> None:
    """What was held out comes last, though another rating is of the same second, or later."""
    data = read_published("ml-1m-ncf", tmp_path)
    held = last_two(data).held["test"]
    assert data.catalog.raw_ids(held.targets) == [25]
    assert data.catalog.raw_ids(data.history(0)) == [32, 34, 25]


def test_attributes_of_s3rec(tmp_path: Path) -> None:
    data = read_published("s3rec-beauty", tmp_path)
    assert data.catalog.table["attributes"].to_pylist() == [[4, 5], None, []]
    assert data.content_hash == load(data.save(tmp_path / "saved")).content_hash


def test_text_files_of_sasrec(tmp_path: Path) -> None:
    data = read_published("amazon-games-sasrec", tmp_path)
    assert data.catalog.raw_ids(data.items) == [5, 6, 5]
    assert data.verb == "bought"


def test_steam_with_the_published_filter(tmp_path: Path) -> None:
    data = read_published("steam-sasrec", tmp_path)
    assert (data.user_count, data.item_count, len(data)) == (5, 6, 30)
    assert data.verb == "played"


@pytest.mark.parametrize(
    ("name", "use", "content"),
    [
        ("ml-1m-ncf", "train", b"0\tx\t4\t978824330\n"),
        ("ml-1m-ncf", "train", b"0\t32\n"),
        ("ml-1m", "users", b"1::F\n"),
        ("ml-100k", "items", b"242|Kolya\n"),
        ("s3rec-beauty", "attributes", b"[1, 2]"),
    ],
)
def test_damaged_published_files_give_a_clear_error(
    name: str, use: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHENCE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    for one, file in DATASETS[name].layouts[0].files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        text = PUBLISHED[name][one].encode("latin-1" if name in LATIN else "utf-8")
        (tmp_path / file).write_bytes(content if one == use else text)
    with pytest.raises(InputError, match="ownload it again"):
        load(name)


@pytest.mark.parametrize("name", [name for name, named in DATASETS.items() if named.layouts])
def test_an_absent_dataset_says_which_file_to_put_where(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHENCE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    wanted = next(iter(DATASETS[name].layouts[0].files.values()))
    with pytest.raises(InputError, match=f"'whence data get {name}', or put .*{wanted}"):
        load(name)


def test_files_are_found_packed_and_in_either_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHENCE_DATA", str(tmp_path / "named"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    assert not DATASETS["ml-latest"].available
    folder = tmp_path / "home" / "whence" / "ml-latest"
    folder.mkdir(parents=True)
    for use, file in (("events", "ratings.csv.gz"), ("items", "movies.csv")):
        text = PUBLISHED["ml-25m"][use].encode()
        (folder / file).write_bytes(gzip.compress(text) if file.endswith(".gz") else text)
    assert load("ml-latest").catalog.labels([0]) == ["Pulp, Fiction (1994)"]
    assert load("ml-latest").origin == {"source": "ml-latest"}


def test_every_download_has_a_place_that_is_read() -> None:
    for name, named in DATASETS.items():
        places = {file for layout in named.layouts for file in layout.files.values()}
        places |= {layout.negatives for layout in named.layouts if layout.negatives}
        for one in named.downloads:
            assert set(one.members) <= places, name
            assert one.members or one.path.removesuffix(".gz") in places, name
            assert one.url.startswith("https://"), name


def test_every_download_has_a_checksum_or_a_reason() -> None:
    for name, named in DATASETS.items():
        for one in named.downloads:
            assert bool(one.checksum) != bool(one.why_no_checksum), (name, one.path)
            if one.checksum:
                assert re.fullmatch("sha256:[0-9a-f]{64}", one.checksum), one.path
            else:
                assert one.why_no_checksum.endswith("."), one.path


def test_every_download_has_a_limit() -> None:
    for named in DATASETS.values():
        for one in named.downloads:
            assert 1_000_000 <= one.max_bytes <= 2_000_000_000, one.path
            assert bool(one.members) == bool(one.max_unpacked), one.path


@pytest.mark.needs("data")
@pytest.mark.parametrize(
    "name", ["amazon-games-sasrec", "amazon-beauty-sasrec", "s3rec-beauty", "s3rec-lastfm"]
)
def test_the_checksums_are_those_of_the_published_files(name: str) -> None:
    named = DATASETS[name]
    (one,) = (one for one in named.downloads if one.checksum)
    found = find_file(one.path)
    assert found is not None
    content = gzip.decompress(found.read_bytes())
    assert one.checksum == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert len(content) <= one.max_bytes


REAL = {
    "ml-100k": (943, 1_682, 100_000),
    "ml-1m": (6_040, 3_706, 1_000_209),
    "ml-1m-ncf": (6_040, 3_706, 1_000_209),
    "ml-1m-sasrec": (6_040, 3_416, 999_611),
    "ml-latest-small": (610, 9_724, 100_836),
    "amazon-beauty-sasrec": (52_204, 57_289, 394_908),
    "amazon-games-sasrec": (31_013, 23_715, 287_107),
    "amazon-beauty-bert4rec": (40_226, 54_542, 353_962),
    "s3rec-beauty": (22_363, 12_101, 198_502),
    "s3rec-toys": (19_412, 11_924, 167_597),
    "s3rec-lastfm": (1_090, 3_646, 52_551),
}


@pytest.mark.needs("data")
def test_real_files_have_the_published_counts() -> None:
    found = {name: load(name) for name in REAL}
    assert {
        name: (data.user_count, data.item_count, len(data)) for name, data in found.items()
    } == REAL


@pytest.mark.needs("data")
def test_half_of_the_steps_of_ml_1m_are_ties() -> None:
    found = statistics(load("ml-1m"))
    assert (found["steps with equal times"], found["steps with known times"]) == (259_297, 484_651)


@pytest.mark.needs("data")
def test_sasrecs_file_is_ml_1m_with_counts_taken_once() -> None:
    """Kang & McAuley's filter, on the ratings, gives their events in their order."""
    filtered = prepare(load("ml-1m"), Preparation(min_user_events=5, min_item_events=5))
    published = load("ml-1m-sasrec")
    movie = published.catalog.table["movie_id"].to_numpy()[published.items]
    assert np.array_equal(published.offsets, filtered.offsets)
    assert np.array_equal(movie, filtered.catalog.table["item"].to_numpy()[filtered.items])


@pytest.mark.needs("data")
def test_the_published_test_ratings_are_the_last_ones() -> None:
    data = load("ml-1m-ncf")
    held = last_two(data).held["test"]
    assert len(held) == 6_040
    assert len(np.unique(held.targets)) == 1_921


@pytest.mark.needs("data")
def test_amazon_games_has_users_too_short_to_be_asked() -> None:
    data = load("amazon-games-sasrec")
    assert len(last_two(data).held["test"]) == 31_013 - 112


def real_files(name: str) -> Mapping[str, Path]:
    folder = Path(os.environ["WHENCE_DATA"])
    return {path.name: path for path in (folder / name).iterdir()}


@pytest.mark.needs("data")
def test_a_real_file_by_its_path_is_guessed_right() -> None:
    """Every file of events that has a name, without it."""
    by_path = {
        "ml-100k": "ratings.csv.gz",
        "ml-latest-small": "ratings.csv.gz",
        "amazon-video-games-sasrec": "Video.txt.gz",
        "amazon-beauty-sasrec": "Beauty.txt.gz",
        "amazon-beauty-bert4rec": "beauty.txt.gz",
        "s3rec-5core": "LastFM.txt.gz",
    }
    names = {"amazon-video-games-sasrec": "amazon-games-sasrec", "s3rec-5core": "s3rec-lastfm"}
    for folder, file in by_path.items():
        data = load(real_files(folder)[file])
        assert (data.user_count, data.item_count, len(data)) == REAL[names.get(folder, folder)]
