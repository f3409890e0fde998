"""`whence audit` as a user runs it, with real files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from command_line import Done, whence
from whence.cli.audit import CASES
from whence.locks import lock
from whence.run import Run
from whence.trust.audit.auditor import _command, default_folder
from whence.trust.audit.context import CASES as CASES_IN_PYTHON
from whence.trust.audit.stage import STAGES

QUICK = ("--cases", "20", "--method", "rollout", "--method", "gradient-norm")
FEW = ("--stages", "accuracy,agreement")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "whence", "audit", *map(str, arguments)]


def audit(*arguments: object, cwd: Path | None = None) -> Done:
    return whence("audit", *arguments, cwd=cwd)


def test_the_command_lists_every_stage_and_has_the_default_of_python(run: Run) -> None:
    listed = audit(run.folder, "--stages", "list").stdout
    assert [line.partition(":")[0] for line in listed.splitlines()] == list(STAGES)
    assert CASES == CASES_IN_PYTHON


def test_a_report_a_document_and_a_table(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    done = audit(run.folder, *QUICK, *FEW, "--out", folder)
    assert done.returncode == 0, done.stderr
    assert "Is the model accurate?" in done.stdout
    assert f"Report: {folder / 'audit.html'}" in done.stdout
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
    assert names == ["audit.html", "audit.json", "stages/accuracy.json", "stages/agreement.json"]
    before = {path: path.stat().st_mtime_ns for path in (folder / "stages").iterdir()}
    again = audit(run.folder, *QUICK, *FEW, "--out", folder, "--json")
    assert json.loads(again.stdout) == json.loads((folder / "audit.json").read_text())
    assert {path: path.stat().st_mtime_ns for path in before} == before, "nothing ran twice"
    page = (folder / "audit.html").read_text()
    assert f"whence audit {run.folder} --out {folder} --stages" in page
    assert "--stages accuracy,agreement --cases 20 --method rollout --method gradient-norm" in page


def test_the_command_on_the_page_has_every_option_that_matters(run: Run, tmp_path: Path) -> None:
    assert run.folder is not None
    assert _command(run, tmp_path, None, ["fading"], 20, 1, "dropped") == (
        f"whence audit {run.folder} --out {tmp_path} --cases 20 --method fading --model-seed 1 "
        "--removal dropped"
    )
    assert _command(run, default_folder(run.folder), None, None, CASES, None, None) == (
        f"whence audit {run.folder}"
    )


def test_a_run_can_be_the_folder_one_is_in(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert default_folder(Path()) == tmp_path / "here-audit"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["nowhere"], 3, "nowhere is not a run folder."),
        (["{run}", "--stages", "acuracy"], 2, "did you mean 'accuracy'?"),
        (["{run}", "--model-seed", "7"], 2, "This run has no model of seed 7. Choose from: 0, 1."),
        (["{run}", "--method", "magic"], 2, "no explainer 'magic'"),
        (["{run}", "--method", "random"], 2, "name at least one other explainer."),
        (["{run}", "--cases", "0"], 2, "--cases"),
        (["{run}", "--removal", "zeroed"], 2, "Choose from: attention-column, dropped."),
        (["{run}", "--memory", "lots"], 2, "'lots' is not a size of memory"),
        (["{run}", "--device", "gpu"], 2, "no device 'gpu'"),
        (["{run}", "--out", "{run}"], 2, "so it is not the folder of an audit; name another."),
    ],
)
def test_mistakes_are_one_sentence_and_the_right_code(
    arguments: list[str], code: int, sentence: str, run: Run, tmp_path: Path
) -> None:
    assert run.folder is not None
    done = audit(*(text.format(run=run.folder) for text in arguments), cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert sentence in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == [], "nothing half-written"
    assert not run.folder.with_name(f"{run.folder.name}-audit").exists()


@pytest.mark.kill
def test_ctrl_c_keeps_what_is_done_and_says_130(run: Run, tmp_path: Path) -> None:
    folder, log = tmp_path / "audit", tmp_path / "log"
    slow = ("--method", "shapley:exact_up_to=0,coalitions=65536")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            command(run.folder, "--out", folder, *slow), stderr=stderr, env=environment
        ) as process,
    ):
        deadline = time.monotonic() + 60
        while f"4 of {len(STAGES)}" not in log.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(2)  # into the long work of the fourth stage
        # Once may not be enough: a library that is being imported may swallow it. But a second one
        # while the first is being heeded would end it without a word.
        for _ in range(4):
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=60)
                break
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in log.read_text()
    assert "Run the same command again to resume" in log.read_text()
    kept = [path.name for path in folder.rglob("*.*")]
    assert "accuracy.json" in kept
    assert "audit.html" not in kept


def test_only_the_files_of_an_audit_are_replaced(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    (folder / "stages").mkdir(parents=True)
    for name in ("audit.json", "audit.html", "stages/notes.json", "stages/plan.txt"):
        (folder / name).write_text('{"mine": 1}')
        done = whence("audit", run.folder, "--stages", "accuracy", "--out", folder, "--fresh")
        assert done.returncode == 2
        assert name in done.stderr
        assert (folder / name).read_text() == '{"mine": 1}'
        (folder / name).unlink()


def test_an_audit_that_is_being_written_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    with ThreadPoolExecutor(1) as pool, lock(tmp_path / "audit"):
        words = ("audit", run.folder, "--stages", "accuracy", "--out", tmp_path / "audit")
        done = pool.submit(whence, *words).result()
    assert done.returncode == 2
    assert "audit is being written by another process" in done.stderr
    assert list((tmp_path / "audit").iterdir()) == []


def test_a_demonstration_replaces_only_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "demo" / "run").mkdir(parents=True)
    (tmp_path / "demo" / "run" / "thesis.txt").write_text("years of work")
    words = ("demo", "--data", "world", "--out", tmp_path / "demo")
    assert "run was not written by Whence" in whence(*words).stderr
    (tmp_path / "demo" / "report.html").write_text("mine")
    assert "report.html was not written by Whence" in whence(*words).stderr
    with ThreadPoolExecutor(1) as pool, lock(tmp_path / "demo"):
        assert "is being written" in pool.submit(whence, *words).result().stderr
    assert (tmp_path / "demo" / "run" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("link", ["stages/accuracy.json", "audit.json", "audit.html", "stages"])
def test_links_in_the_folder_of_an_audit_are_not_followed(
    run: Run, tmp_path: Path, link: str
) -> None:
    private = tmp_path / "home"
    private.mkdir()
    (private / "accuracy.json").write_text("whence")
    (private / ".precious.json").write_text("kept")
    place = tmp_path / "audit" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(private if link == "stages" else private / "accuracy.json")
    order = ("audit", run.folder, "--out", tmp_path / "audit", "--stages", "accuracy", "--fresh")
    done = whence(*order, "--cases", 5)
    assert done.returncode == 2
    assert "is a symbolic link, which is not followed" in done.stderr
    assert (private / "accuracy.json").read_text() == "whence"
    assert (private / ".precious.json").read_text() == "kept"
