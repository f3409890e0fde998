"""What stands in `results/` is what its records say."""

from __future__ import annotations

from pathlib import Path

import pytest

from whence.report.study import as_markdown, study_tables
from whence.report.study_charts import slug
from whence.studies import find_study, study_files
from whence.studies.records import read_records
from whence.studies.results import check_records

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
