"""Published negatives: made-up files in both layouts, and the real one."""

from __future__ import annotations

import csv
import gzip
import io
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conftest import NCF_EVENTS, ncf_layout
from whence.data import DATASETS, Interactions, last_one, last_two, load
from whence.data.published_negatives import find_negatives, published_negatives
from whence.errors import InputError


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Interactions:
    """Four users, and a file with the negatives of their last events."""
    return ncf_layout(tmp_path, monkeypatch)


def test_negatives_are_joined_by_user_and_item(data: Interactions) -> None:
    """The file is in another order than the data."""
    cases = last_one(data).held["test"]
    found = published_negatives(data).of(cases)
    assert found.shape == (4, 99)
    for row, user in enumerate(cases.users):
        raw = data.users["user"][int(user)].as_py()
        expected = NCF_EVENTS[raw][1]
        assert data.catalog.raw_ids(found[row]) == expected
    some = published_negatives(data).of(cases[np.array([2, 0])])
    assert (some == found[[2, 0]]).all()


def test_the_same_events_of_another_split(data: Interactions) -> None:
    """Leave-one-out tests on the last event too; what it validates on is another one."""
    held = last_two(data).held
    negatives = published_negatives(data)
    assert negatives.fits(held["test"])
    assert not negatives.fits(held["validation"])
    with pytest.raises(InputError, match="published for 4 of the 4 events.*ml-1m-ncf"):
        negatives.of(held["validation"])


def test_dropped_items_are_reported(data: Interactions) -> None:
    """Who prepares the data may lose negatives; that is not passed over."""
    split = last_one(data)
    kept = np.ones(len(data), dtype=bool)
    kept[data.offsets[0]] = False  # item 100 of user 7, chosen once
    fewer = data.select(kept, "one item")
    negatives = published_negatives(fewer)
    with pytest.raises(InputError, match="3 of the published negatives .* Use ml-1m-ncf"):
        negatives.of(last_one(fewer).held["test"])
    assert not negatives.fits(last_one(fewer).held["test"])
    assert published_negatives(data).fits(split.held["test"])


def test_the_publishers_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of (user,item) and negatives, with the ids of that release."""
    monkeypatch.setenv("WHENCE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    layout = DATASETS["ml-1m-ncf"].layouts[0]
    monkeypatch.setitem(DATASETS, "ml-1m-ncf", replace(DATASETS["ml-1m-ncf"], counts=None))
    train = "".join(f"{u}\t{i}\t4\t{i}\n" for u in range(2) for i in range(u, 100 + u))
    test = "0\t100\t5\t500\n1\t0\t3\t600\n"
    negatives = {0: list(range(100, 1, -1)), 1: list(range(1, 100))}
    lines = [
        f"({u},{t})\t" + "\t".join(map(str, negatives[u])) + "\n" for u, t in ((0, 100), (1, 0))
    ]
    contents = {"train": train, "test": test, "negatives": "".join(lines)}
    for use, file in {**layout.files, "negatives": layout.negatives}.items():
        assert file is not None
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(contents[use])
    data = load("ml-1m-ncf")
    found = published_negatives(data).of(last_one(data).held["test"])
    assert [data.catalog.raw_ids(row) for row in found] == [negatives[0], negatives[1]]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("user_id,movie_id,rating,timestamp,negatives\n7,103,5,1,1 2 3\n", "3 negatives"),
        ("user_id,movie_id,rating,timestamp,negatives\n7,103,5,1,1 x\n", "invalid literal"),
        ("user_id,movie_id,rating\n7,103,5\n", "negatives"),
        ("(0,25)\t1\t2\n(1,2)\t1\n", "inhomogeneous"),
    ],
)
def test_a_damaged_file_gives_a_clear_error(
    content: str, problem: str, data: Interactions, tmp_path: Path
) -> None:
    (tmp_path / "ml-1m" / "ncf_leave_one_out_test.csv").write_text(content)
    with pytest.raises(InputError, match=f"99 negatives .*{problem}.*ownload it again"):
        published_negatives(data)


def test_absent_files_and_other_data_give_a_clear_error(
    data: Interactions, tmp_path: Path, interactions: Interactions
) -> None:
    (tmp_path / "ml-1m" / "ncf_leave_one_out_test.csv").rename(tmp_path / "away")
    ml_1m = replace(data, origin={"source": "ml-1m"})
    with pytest.raises(InputError, match=r"Put ml-1m/ncf_leave_one_out_test.csv into "):
        published_negatives(ml_1m)
    assert find_negatives(ml_1m) is None
    for other in (interactions, replace(data, origin={"source": "ml-100k"})):
        with pytest.raises(InputError, match="No negatives are published for .*Use one of ml-1m"):
            published_negatives(other)
        assert find_negatives(other) is None


@pytest.mark.needs("data")
def test_the_published_test_events() -> None:
    """The counts of Table 3.1 of Jain (2019), and every row of the file, read another way."""
    data = load("ml-1m-ncf")
    split = last_one(data)
    cases = split.held["test"]
    assert (int(split.trained().sum()), len(cases)) == (994_169, 6_040)
    found = published_negatives(data).of(cases)
    path = Path(os.environ["WHENCE_DATA"]) / "ml-1m" / "ncf_leave_one_out_test.csv.gz"
    with gzip.open(path) as packed:
        rows = list(csv.DictReader(io.TextIOWrapper(packed)))
    by_user = {int(row["user_id"]): row for row in rows}
    items = data.catalog.table["item"].to_numpy()
    users = data.users["user"].to_numpy()
    assert data.ratings is not None
    for row, user in enumerate(users[cases.users]):
        assert items[found[row]].tolist() == [int(i) for i in by_user[user]["negatives"].split()]
        assert items[cases.targets[row]] == int(by_user[user]["movie_id"])
        assert data.ratings[cases.ends[row]] == int(by_user[user]["rating"])
    assert (found == cases.targets[:, None]).any(axis=1).sum() == 156
    pairs = data.pairs()[split.trained()]
    asked = (cases.users[:, None] * data.item_count + found).ravel()
    assert not np.isin(asked, pairs).any(), "no negative is in the training events"


@pytest.mark.needs("data")
def test_ties_make_other_test_events_of_ml_1m() -> None:
    """1,667 users have another rating of the last second after that of He et al. (2017)."""
    data = load("ml-1m")
    cases = last_one(data).held["test"]
    assert not published_negatives(data).fits(cases)
    with pytest.raises(InputError, match="1,667 of the 6,040 events.*ml-1m-ncf"):
        published_negatives(data).of(cases)
