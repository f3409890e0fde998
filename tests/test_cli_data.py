"""`whence data` as a user runs it: real files, full disks."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from command_line import Done, whence
from whence import former
from whence.cli.options import SPLITS as SPLIT_OPTIONS
from whence.cli.options import Format, Repeats
from whence.data import SPLITS, load
from whence.data.preparation import REPEATS
from whence.data.readers.tabular import FORMATS


def process(
    *arguments: object, before: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, whose limits can be set."""
    return subprocess.run(
        [sys.executable, "-m", "whence", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "160", "OMP_NUM_THREADS": "1"},
        preexec_fn=before,
        check=False,
    )


def error_of(done: Done | subprocess.CompletedProcess[str]) -> str:
    """Return the error of a failed command, if that is all it printed."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    lines = [
        line for line in done.stderr.splitlines() if not line.startswith(("columns", "dropped"))
    ]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    return lines[0]


@pytest.fixture(scope="module")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop of 60 users, with times, ratings, a repeated row, and a file of items."""
    path = tmp_path_factory.mktemp("shop") / "ratings.csv"
    rng = np.random.default_rng(0)
    rows = [
        f"c{user},{item},{rng.integers(1, 6)},{1_600_000_000 + 86_400 * int(rng.integers(0, 500))}"
        for user in range(60)
        for item in rng.permutation(40)[: rng.integers(2, 15)]
    ]
    path.write_text("customer,sku,stars,ts\n" + "\n".join([*rows, rows[0]]) + "\n")
    items = "".join(f"{item},Thing {item},{item % 3}\n" for item in range(40))
    (path.parent / "items.csv").write_text("sku,name,aisle\n" + items)
    return path


def test_prepare_then_load(ratings: Path, tmp_path: Path) -> None:
    done = whence(
        "data", "prepare", ratings, "--items", ratings.parent / "items.csv", "--verb", "bought",
        "--min-rating", 2, "--min-user-events", 3, "--min-item-events", 3, "--k-core",
        "--repeats", "last", "--out", tmp_path / "p",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (
        "columns: user=customer, item=sku, time=ts, rating=stars, title=from --items" in done.stderr
    )
    assert (
        "dropped rows equal to another in user, item, time and rating: 1 (use --keep-dup"
        in done.stderr
    )
    data = load(tmp_path / "p")
    assert data.verb == "bought"
    assert data.catalog.table.column_names == ["item", "title", "aisle"]
    assert data.catalog.labels([0])[0].startswith("Thing ")
    assert np.diff(data.offsets).min() >= 3
    assert np.bincount(data.items).min() >= 3
    manifest = json.loads((tmp_path / "p" / "manifest.json").read_text())
    assert [one["what"] for one in manifest["filters"]][:2] == [
        "rows equal to another in user, item, time and rating",
        "events rated below 2",
    ]
    assert manifest["origin"]["preparation"] == [
        {
            "min_rating": 2.0,
            "repeats": "last",
            "min_user_events": 3,
            "min_item_events": 3,
            "k_core": True,
        }
    ]


def test_stats_in_words_and_as_json(ratings: Path) -> None:
    shown = whence("data", "stats", ratings)
    assert "steps with equal times" in shown.stdout
    assert "dropped: rows equal to another in user, item, time and rating   1" in shown.stdout
    found = json.loads(whence("data", "stats", ratings, "--json").stdout)
    assert found["users"] == 60
    assert found["dropped"] == {"rows equal to another in user, item, time and rating": 1}


@pytest.mark.parametrize("split", SPLITS)
def test_training_on_every_split(split: str, ratings: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = whence(
        "train", ratings, "--out", folder, "--split", split.title(), "--min-rating", 2,
        "--set", "steps=20,dim=8,max_len=5",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert split in " ".join(done.stdout.split())
    described = json.loads((folder / "run.json").read_text())
    assert described["training"]["split"] == split
    again = whence("recommend", folder, "--user", "c3")
    assert again.returncode == 0, again.stderr
    assert "Recommended for user c3" in again.stdout


def test_a_query_on_the_command_line(tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "shop.db") as base:
        base.execute("CREATE TABLE sold (buyer, sku, at)")
        base.executemany("INSERT INTO sold VALUES (?, ?, ?)", [(1, 2, 3), (1, 4, 5)])
    base.close()
    url = f"sqlite:///{tmp_path}/shop.db"
    done = whence("data", "stats", url, "--query", "SELECT * FROM sold", "--json")
    assert json.loads(done.stdout)["events"] == 2
    assert "--query 'SELECT" in error_of(whence("data", "stats", url))


def test_list_and_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHENCE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    done = whence("data", "list")
    assert "ml-25m" in done.stdout
    assert "whence data get NAME" in done.stdout
    assert "did you mean 'ml-25m'" in error_of(whence("data", "get", "ml-25"))


def test_offline_says_which_file_to_put_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHENCE_DATA", str(tmp_path))
    monkeypatch.setattr("whence.data.download.time.sleep", lambda _: None)
    done = whence("data", "get", "ml-1m", "--mirror", "http://127.0.0.1:1")
    assert done.returncode == 2
    assert f"put it at {tmp_path}/ml-1m.zip" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--user", "who"], "no column 'who' for the user. It has customer, sku, stars, ts"),
        (["--min-rating", "9"], r"The filters left no events \(events rated below 9"),
        (
            ["--min-user-events", "99"],
            r"left no events \(users with fewer than 99 events, counted once\)",
        ),
        (["--format", "json"], "row 1: .* is not a record|is not a record"),
        (["--encoding", "utf-99"], "There is no encoding 'utf-99'"),
        (["--items", "absent.csv"], "There is no file 'absent.csv'"),
        (
            ["--user", "ts", "--time", "customer"],
            "row 2, column 'customer': 'c0' is not seconds or a date",
        ),
    ],
)
def test_mistakes_give_a_clear_error(ratings: Path, options: list[str], expected: str) -> None:
    import re

    assert re.search(expected, error_of(whence("data", "stats", ratings, *options)))


@pytest.mark.parametrize("option", ["--repeats", "--format"])
def test_choices_are_named(ratings: Path, option: str) -> None:
    done = whence("data", "stats", ratings, option, "some")
    assert done.returncode == 2
    assert "is not one of" in done.stderr


def test_earlier_filters_are_not_reported_again(ratings: Path, tmp_path: Path) -> None:
    assert whence("data", "prepare", ratings, "--out", tmp_path / "p").returncode == 0
    done = whence("data", "stats", tmp_path / "p")
    assert done.stderr == ""
    assert "dropped: rows equal" in done.stdout


def test_nowhere_to_write(ratings: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    assert "already exists" in error_of(whence("data", "prepare", ratings, "--out", taken))
    assert "cannot be written" in error_of(
        whence("data", "prepare", ratings, "--out", taken / "below")
    )
    assert "cannot be written" in error_of(
        whence("data", "prepare", ratings, "--out", "/proc/prepared")
    )
    assert list(tmp_path.iterdir()) == [taken]


def test_a_disk_that_fills_up_gives_a_clear_error(ratings: Path, tmp_path: Path) -> None:
    """No file may grow beyond two kilobytes, as if the disk ended there."""

    def small_disk() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))

    done = process("data", "prepare", ratings, "--out", tmp_path / "p", before=small_disk)
    assert "cannot be written: " in error_of(done)
    assert list(tmp_path.iterdir()) == [], "nothing half-written"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_really_full_disk_gives_a_clear_error(ratings: Path, tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", tmp_path],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("no disk can be mounted here")
    try:
        done = whence("data", "prepare", ratings, "--out", tmp_path / "p")
        assert "cannot be written: No space left on device" in error_of(done)
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.kill
def test_a_kill_while_preparing_leaves_nothing_or_everything(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 50_000, (1_000_000, 2))
    path.write_text("user,item\n" + "\n".join(f"{user},{item}" for user, item in rows))
    for moment in (0.6, 0.9, 1.2, 1.5, 1.8):
        process = subprocess.Popen(
            [sys.executable, "-m", "whence", "data", "prepare", path, "--out", tmp_path / "p"],
            stderr=subprocess.DEVNULL,
        )
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (tmp_path / "p").exists():
            assert len(load(tmp_path / "p")) == 1_000_000
            return
    assert whence("data", "prepare", path, "--out", tmp_path / "p").returncode == 0
    assert len(load(tmp_path / "p")) == 1_000_000


def test_one_user_one_item_one_event(tmp_path: Path) -> None:
    """As the guide says: they can be described, and no model can be trained on them."""
    path = tmp_path / "events.csv"
    path.write_text("user,item\na,x\n")
    found = json.loads(whence("data", "stats", path, "--json").stdout)
    assert (found["users"], found["items"], found["events"], found["density"]) == (1, 1, 1, 1.0)
    train = whence("train", path, "--out", tmp_path / "run")
    assert "No user has two training events" in error_of(train)
    assert not (tmp_path / "run").exists()


def test_one_item_alone_can_be_trained_on_and_has_nothing_to_recommend(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,item\n" + "a,x\n" * 5)
    done = whence("train", path, "--out", tmp_path / "run", "--set", "steps=3,dim=4,max_len=4")
    assert done.returncode == 0, done.stderr
    assert "every item is in the history" in whence("recommend", tmp_path / "run", "-u", "a").stdout


@pytest.mark.parametrize(("old", "new"), list(former.SPLITS.items()))
def test_a_former_split_is_named_by_its_new_name(tmp_path: Path, old: str, new: str) -> None:
    done = whence("train", "ratings.csv", "--out", tmp_path / "run", "--split", old)
    assert done.returncode == 2
    assert f"the split '{old}' is now called '{new}'" in done.stderr
    done = whence("train", "ratings.csv", "--out", tmp_path / "run", "--split", "temporl")
    assert "did you mean 'temporal'?" in done.stderr


def test_the_choices_of_the_options_are_all_there_are() -> None:
    assert tuple(SPLITS) == SPLIT_OPTIONS
    assert get_args(Format) == FORMATS
    assert get_args(Repeats) == REPEATS
