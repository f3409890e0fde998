"""Studies that run at the same time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from command_line import whence
from fuzz.forking import content, draw_nothing, end, start
from whence_studies.records import read_records

Tiny = Callable[..., Path]


def running(tmp_path: Path, study: Path, name: str) -> int:
    """Start a study in a process of its own; its messages go to a file."""

    def work() -> None:
        draw_nothing()
        out, cache = tmp_path / "out", tmp_path / "cache"
        done = whence("study", "run", study, "--out", out, "--cache", cache)
        (tmp_path / name).write_text(done.stderr)
        os._exit(done.returncode)

    return start(work)


def test_the_same_study_twice_at_once_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    children = [running(tmp_path, tiny(), name) for name in ("one", "two")]
    codes = [end(child) for child in children]
    assert sorted(codes) == [0, 2]
    refused = (tmp_path / ("one", "two")[codes.index(2)]).read_text()
    assert "tiny.json is being written by another process" in refused
    assert not [name for name in content(tmp_path) if "/." in name]


def test_studies_that_share_a_training_wait_for_each_other(tiny: Tiny, tmp_path: Path) -> None:
    other = tiny(('held = "validation"', 'held = "test"'), name="other")
    children = [running(tmp_path, path, path.stem) for path in (tiny(), other)]
    assert [end(child) for child in children] == [0, 0]
    for name in ("tiny", "other"):
        assert "skipped" not in (tmp_path / name).read_text()
        assert all(one.value is not None for one in read_records(name, tmp_path / "out"))
    assert len(list((tmp_path / "cache" / "runs").iterdir())) == 2, "each was trained once"
    assert not [name for name in content(tmp_path) if "/." in name]
