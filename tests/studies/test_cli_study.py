"""`whence study` as a user meets it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from whence.cli import app
from whence.errors import InputError
from whence_studies.records import NOT_RUN, read_records
from whence_studies.study import study_files

Tiny = Callable[..., Path]


def study(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["study", *map(str, arguments)], env={"COLUMNS": "160"})


def run(path: Path, *more: object) -> Result:
    folder = path.parent
    done = study("run", path, "--out", folder / "out", "--cache", folder / "cache", *more)
    assert done.exit_code == 0, done.output
    return done


def test_a_study_from_start_to_page(tiny: Tiny, tmp_path: Path) -> None:
    path = tiny()
    stopped = run(path, "--minutes", 0)
    assert "0 of 2 rows done. Run the same command to resume." in stopped.output
    assert "– not run yet: World." in stopped.output
    assert {one.verdict for one in read_records("tiny", tmp_path / "out")} == {NOT_RUN}
    done = run(path)
    assert "Run the same command" not in done.output
    assert "two blocks are not better" in done.output
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == sorted(
        ["tiny.json", "tiny.md", "tiny.html"]
        + [f"tiny-{chart}.svg" for chart in ("recall-10-of-101", "recall-10", "ndcg-10", "mrr")]
    )
    again = study("show", path, "--results", tmp_path / "out")
    assert again.output in done.output


def test_a_run_without_the_cache_keeps_earlier_records(tiny: Tiny, tmp_path: Path) -> None:
    path = tiny()
    run(path)
    found = read_records("tiny", tmp_path / "out")
    shutil.rmtree(tmp_path / "cache")
    run(path, "--minutes", 0)
    assert read_records("tiny", tmp_path / "out") == found


def test_the_list_survives_an_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "sequential-accuracy.json").write_text("{")
    listed = study("list", "--results", tmp_path)
    assert listed.exit_code == 0
    assert "unreadable" in listed.output
    assert "stability-averaging" in listed.output


def test_show_prints_the_records(tiny: Tiny, tmp_path: Path) -> None:
    path = tiny()
    run(path, "--minutes", 0)
    shown = study("show", path, "--results", tmp_path / "out", "--json")
    assert json.loads(shown.stdout) == json.loads((tmp_path / "out" / "tiny.json").read_text())
    (tmp_path / "out" / "tiny.md").unlink()
    written = study("show", path, "--results", tmp_path / "out", "--write", "--json")
    assert json.loads(written.stdout) == json.loads(shown.stdout)
    assert "tiny.md" in written.stderr
    assert (tmp_path / "out" / "tiny.md").exists()


def test_show_without_records_says_how_to_make_them(tmp_path: Path) -> None:
    done = study("show", "sequential-accuracy", "--results", tmp_path)
    assert isinstance(done.exception, InputError)
    assert "'whence study run sequential-accuracy' to make them" in str(done.exception)


def test_records_of_a_changed_study_are_refused(tiny: Tiny, tmp_path: Path) -> None:
    run(tiny(), "--minutes", 0)
    renamed = (
        ("one = {", "three = {"),
        ('than = { variant = "one" }', 'than = { variant = "three" }'),
    )
    reworded = ("two blocks are not better", "two blocks are worse")
    for changes in (renamed, (*renamed, reworded)):
        path = tiny(*changes)
        done = study("show", path, "--results", tmp_path / "out")
        assert isinstance(done.exception, InputError)
        assert "--minutes 0' to bring them up to date" in str(done.exception)
        run(path, "--minutes", 0)
        assert study("show", path, "--results", tmp_path / "out").exit_code == 0


def test_the_list_shows_available_data_and_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHENCE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    run_once = study("run", "dataset-statistics", "--out", tmp_path)
    assert run_once.exit_code == 0, run_once.output
    listed = study("list", "--results", tmp_path).output
    for name in study_files():
        assert name in listed
    assert "0 of 7" in listed
    assert "some" in listed or "no" in listed


def test_without_drawing_packages_it_says_how_to_draw_later(tiny: Tiny, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "for name in ('altair', 'vl_convert', 'jinja2'):\n"
        "    sys.modules[name] = None\n"
        "from whence.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "study", "run", str(tiny()), "--minutes", "0",
         "--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "whence study show" in done.stdout
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["tiny.json", "tiny.md"]


@pytest.mark.kill
def test_ctrl_c_keeps_the_records_and_exits_with_130(tiny: Tiny, tmp_path: Path) -> None:
    path = tiny(("steps = 8", "steps = 1000000"))
    command = [sys.executable, "-m", "whence", "study", "run", str(path), "--out", str(tmp_path),
               "--cache", str(tmp_path / "cache")]  # fmt: skip
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path / "cache").glob("runs/.*/seed*.safetensors")) or (
        read_records("tiny", tmp_path)[0].value is None
    ):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "The same command resumes" in said
    assert "row 2 of 2: World, SASRec, two" in said
    assert "Traceback" not in said
    records = read_records("tiny", tmp_path)
    assert records[0].value is not None
    assert records[4].verdict == NOT_RUN
