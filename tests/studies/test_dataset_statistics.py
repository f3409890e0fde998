from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from whence.cli import app
from whence.errors import InputError
from whence_studies.charts.study_page import as_markdown
from whence_studies.records import NEEDS_FILE, OPTIONAL
from whence_studies.study import find_study
from whence_studies.tables.dataset_statistics import _verdict, count

RESULTS = Path(__file__).parents[2] / "results"
FIELDS = [
    "study", "dataset", "model", "row", "column", "value", "spread", "interval", "n", "seeds",
    "published", "verdict", "protocol", "machine", "command",
]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "printed", "verdict"),
    [
        (6040, "6,040", "equal"),
        (6041, "6,040", "differs"),
        (4.8448, "4.845", "equal"),
        (4.8444, "4.845", "differs"),
        (None, "33", NEEDS_FILE),
    ],
)
def test_equal_means_to_the_published_precision(
    found: float | None, printed: str, verdict: str
) -> None:
    assert _verdict("row", "column", found, printed) == verdict


@pytest.mark.needs("data")
def test_a_run_reproduces_the_committed_records(tmp_path: Path) -> None:
    """Every cell but three misprints equals the published one, where the files are here."""
    done = CliRunner().invoke(app, ["study", "run", "dataset-statistics", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    records = json.loads((tmp_path / "dataset-statistics.json").read_text())
    committed = json.loads((RESULTS / "dataset-statistics.json").read_text())
    assert [{**one, "machine": ""} for one in records] == [
        {**one, "machine": ""} for one in committed
    ]
    pages = [(folder / "dataset-statistics.md").read_text() for folder in (tmp_path, RESULTS)]
    one, other = (re.sub(r"on \d+ CPU cores", "", page) for page in pages)
    assert one == other
    odd = {(one["row"], one["column"]) for one in records if one["verdict"].startswith("differs")}
    assert odd == {("Beauty", "users"), ("Train", "items"), ("Full", "mean rating")}
    assert {one["row"] for one in records if one["verdict"] == NEEDS_FILE} == {"Steam"}


def test_without_the_files_the_records_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHENCE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    study = find_study("dataset-statistics")
    records = count(study)
    assert len(records) == 34
    assert {record.verdict for record in records} == {NEEDS_FILE}
    assert all(record.published is not None for record in records)
    page = as_markdown(study, records)
    assert "| – (999,611) | – (146) | – (96) | – (4.845) |" in page
    assert page.count("– needs your copy of the data.") == 3


def test_committed_records_have_all_fields() -> None:
    for path in RESULTS.glob("*.json"):
        for record in json.loads(path.read_text()):
            assert [field for field in record if field not in OPTIONAL] == FIELDS
            assert record["study"] == path.stem
            assert record["command"].startswith("whence study run ")


def test_an_unknown_study_names_the_nearest() -> None:
    done = CliRunner().invoke(app, ["study", "run", "dataset-statistic"])
    assert isinstance(done.exception, InputError)
    assert "did you mean 'dataset-statistics'" in str(done.exception)
    assert "dataset-statistics" in CliRunner().invoke(app, ["study", "list"]).output
