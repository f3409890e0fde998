"""What stands in `results/` is what its records say."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from whence_studies.charts.study_charts import slug
from whence_studies.charts.study_tables import as_markdown, study_tables, terminal_tables
from whence_studies.records import read_records
from whence_studies.results import check_records, judge_by_records
from whence_studies.study import find_study, study_files

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("name", study_files())
def test_the_tables_are_of_the_records(name: str) -> None:
    study = find_study(name)
    records = read_records(name, RESULTS)
    check_records(study, records)
    assert (RESULTS / f"{name}.md").read_text(encoding="utf-8") == as_markdown(study, records)


@pytest.mark.parametrize("name", study_files())
def test_every_table_has_a_chart_of_its_own_name(name: str) -> None:
    titles = [table.title for table in study_tables(find_study(name), read_records(name, RESULTS))]
    names = {slug(title) for title in titles}
    assert len(names) == len(titles)
    assert all(one.isascii() for one in names)


@pytest.mark.parametrize("name", study_files())
def test_claims_are_judged_on_what_stands_there(name: str) -> None:
    records = read_records(name, RESULTS)
    assert judge_by_records(find_study(name), records) == records


def test_a_claim_is_judged_anew_when_a_side_of_it_changes() -> None:
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


def test_a_terminal_is_told_where_wide_tables_are() -> None:
    study, console = find_study("sequential-dynamics"), Console(width=100, file=StringIO())
    for table in terminal_tables(study, read_records(study.id, RESULTS)):
        console.print(table)
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert "Training dynamics: 15 columns, too many for a terminal" in shown
    assert "in sequential-dynamics.md" in " ".join(shown.split())
    assert "…" not in shown
