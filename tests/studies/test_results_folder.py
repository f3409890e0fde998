"""What stands in `results/` is what its records say."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from html import escape
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from whence.cli import app
from whence_studies import records as records_module
from whence_studies.charts.overview import overview
from whence_studies.charts.study_charts import study_charts
from whence_studies.charts.study_page import as_markdown, figure_files, terminal_tables
from whence_studies.checking import check_study
from whence_studies.records import Record, find_records, read_records
from whence_studies.results import check_records, judge_by_records, rows_done
from whence_studies.study import Study, find_study, study_files

RESULTS = Path(__file__).parents[2] / "results"


REPOSITORY = RESULTS.parent


@pytest.fixture(scope="module", params=study_files())
def page(request: pytest.FixtureRequest) -> tuple[Study, list[Record]]:
    """A study with its committed records."""
    return find_study(request.param), read_records(request.param, RESULTS)


def test_the_page_is_what_its_records_give(page: tuple[Study, list[Record]]) -> None:
    study, records = page
    check_study(study)
    check_records(study, records)
    charts = study_charts(study, records)
    if rows_done(study, records)[0]:
        assert set(study.figures.values()) <= set(charts)
    assert len(study.figures) <= 4
    figures = figure_files(study, list(charts))
    expected = as_markdown(study, records, figures)
    assert (RESULTS / f"{study.id}.md").read_text(encoding="utf-8") == expected
    for title, name in figures.items():
        svg = (RESULTS / name).read_text(encoding="utf-8")
        assert f'aria-label="{escape(study.title, quote=True)}: {escape(title, quote=True)}"' in svg


def test_claims_agree_with_the_committed_records(page: tuple[Study, list[Record]]) -> None:
    study, records = page
    assert judge_by_records(study, records) == records


def test_the_overview_is_what_the_records_give() -> None:
    studies = [find_study(name) for name in study_files()]
    assert (RESULTS / "README.md").read_text(encoding="utf-8") == overview(studies, RESULTS)


def test_every_figure_is_shown_and_every_shown_figure_exists() -> None:
    pages = [*RESULTS.glob("*.md"), *(REPOSITORY / "docs").glob("*.md"), REPOSITORY / "README.md"]
    shown = {
        (page.parent / link).resolve()
        for page in pages
        for link in re.findall(r"\]\(([^)]*\.svg)\)", page.read_text(encoding="utf-8"))
    }
    there = set(RESULTS.glob("*.svg"))
    assert there <= shown
    assert {path for path in shown if path.parent == RESULTS} == there
    assert not [path for path in shown if not path.exists()]


def test_records_ship_with_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in the given folder, else here, in the installed package, or in the clone."""
    clone, installed, here = tmp_path / "clone", tmp_path / "installed", tmp_path / "here"
    monkeypatch.setattr(records_module, "SHIPPED", (installed, clone))

    def found(given: Path | None = None) -> Path:
        return find_records("a-study", given, here)

    assert found() == here, "an error names this folder"
    for folder in (clone, installed, here):
        folder.mkdir()
        (folder / "a-study.json").write_text("[]")
        assert found() == folder
    assert found(tmp_path) == tmp_path
    build = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    wheel = build["targets"]["wheel"]
    assert wheel["sources"] == {"results": "whence_studies/results"}
    assert "results" in wheel["only-include"]


def test_the_shipped_records_are_found_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["study", "show", "sequential-entropy", "--json"])
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout) == json.loads((RESULTS / "sequential-entropy.json").read_text())


def test_a_claim_is_judged_again_when_a_side_changes() -> None:
    """By the cells that are there, when nobody has both sides seed by seed any more."""
    study = find_study("collaborative-accuracy")
    records = read_records(study.id, RESULTS)
    text, side = "class balance costs little accuracy", "two classes, balanced"
    changed = [
        replace(one, value=one.value - 30) if one.row == side and one.value is not None else one
        for one in records
    ]
    before, after = (
        next(one for one in judge_by_records(study, some) if one.row == text)
        for some in (records, changed)
    )
    assert (before.verdict, after.verdict) == ("holds", "does not hold")
    assert before.value is not None
    assert after.value == pytest.approx(before.value - 30)
    assert "Welch" in after.protocol


def test_the_terminal_points_to_wide_tables() -> None:
    study, console = find_study("sequential-dynamics"), Console(width=100, file=StringIO())
    for table in terminal_tables(study, read_records(study.id, RESULTS)):
        console.print(table)
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert "Training dynamics: 15 columns do not fit a terminal" in shown
    assert "See sequential-dynamics.md" in " ".join(shown.split())
    assert "…" not in shown
