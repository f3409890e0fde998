"""Folders and files that are there whole or not at all, whatever was killed before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from whence.files import MANIFEST, new_file, new_folder


@pytest.fixture
def dead() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def write(folder: Path, text: str, overwrite: bool = False) -> None:
    with new_folder(folder, overwrite) as partial:
        (partial / MANIFEST).write_text(text)


def test_what_a_killed_process_left_is_removed(tmp_path: Path, dead: int) -> None:
    (tmp_path / f".run.partial-{dead}").mkdir()
    (tmp_path / f".file.partial-{dead}").write_text("half")
    (tmp_path / f".other.partial-{dead}").write_text("somebody else's")
    (tmp_path / f".run.partial-{os.getppid()}").mkdir()
    write(tmp_path / "run", "new")
    with new_file(tmp_path / "file") as partial:
        partial.write_text("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f".other.partial-{dead}",
        f".run.partial-{os.getppid()}",
        "file",
        "run",
    ]


def test_killed_between_the_two_renames_the_former_folder_is_back(
    tmp_path: Path, dead: int
) -> None:
    write(tmp_path / "run", "old")
    (tmp_path / "run").rename(tmp_path / f".run.former-{dead}")
    with pytest.raises(RuntimeError, match="stopped"), new_folder(tmp_path / "run", overwrite=True):
        raise RuntimeError("stopped")
    assert (tmp_path / "run" / MANIFEST).read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_after_a_finished_overwrite_the_former_folder_goes(tmp_path: Path, dead: int) -> None:
    write(tmp_path / "run", "new")
    (tmp_path / f".run.former-{dead}").mkdir()
    write(tmp_path / "run", "newer", overwrite=True)
    assert (tmp_path / "run" / MANIFEST).read_text() == "newer"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
