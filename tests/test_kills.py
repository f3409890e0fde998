"""Real commands that are killed, are repeated, or run on a full disk."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import whence
from fuzz.forking import KILLED, content, draw_nothing, end, start
from fuzz.kills import kill_commands
from whence.worlds import WorldConfig, make_world

SMALL = "steps=3,dim=4,max_len=4,batch_size=16"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared folder that is trained on in no time."""
    world = make_world(WorldConfig(users=30, items=25, events=6, genres=2, seed=1))
    return world.interactions.save(tmp_path_factory.mktemp("data") / "prepared")


@pytest.mark.kill
def test_killed_commands_end_as_if_nothing_had_happened(tmp_path: Path) -> None:
    report = kill_commands(6, 0, tmp_path)
    assert report.tried >= 6
    assert report.failures == ()


def test_a_training_killed_when_it_was_done_succeeds_the_next_time(
    data: Path, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    place.mkdir()

    def train(*more: str) -> int:
        out = place / "run"
        return whence("train", data, "--out", out, "--set", SMALL, *more).returncode

    def killed() -> None:
        shutil.rmtree = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        train()

    assert end(start(killed)) == KILLED
    assert {path.name for path in place.iterdir()} == {
        "run", ".run.unfinished", ".run.whence-lock",
    }  # fmt: skip
    done = content(place / "run")
    assert train("--seeds", "2") == 2, "other work was asked for, and this one is not forgotten"
    assert train() == 0
    assert content(place / "run") == done
    assert [path.name for path in place.iterdir()] == ["run"]
    assert train() == 2, "it exists"


def on_a_full_disk(work: Callable[[], int], room: int) -> int:
    """Run the work where no file can grow beyond that many bytes, and return its exit code."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        os._exit(work())

    return end(start(limited))


@pytest.mark.parametrize("room", [200, 20_000])
def test_a_study_on_a_full_disk_fails(room: int, tiny: Callable[..., Path], tmp_path: Path) -> None:
    words = ("study", "run", tiny(), "--out", tmp_path / "out", "--cache", tmp_path / "cache")

    def study() -> int:
        draw_nothing()
        done = whence(*words)
        os._exit(9 if "Traceback" in done.stderr else done.returncode)

    assert on_a_full_disk(study, room) == 2
    hidden = [name for name in content(tmp_path) if "whence-" in name]
    assert hidden == []


@pytest.mark.parametrize("room", [200, 1_000])
def test_a_full_disk_keeps_the_former_folder(room: int, data: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    for words in (
        ("train", data, "--set", SMALL, "--out", place / "run"),
        ("data", "prepare", data, "--out", place / "prepared"),
    ):
        assert whence(*words).returncode == 0
        before = content(place)
        again = (*words, "--overwrite")
        assert on_a_full_disk(lambda again=again: whence(*again).returncode, room) == 2  # type: ignore[misc]
        assert content(place) == before
