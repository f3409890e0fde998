"""A study's tables, charts and page, from the same records."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from browsing import in_browser
from whence_studies.cache import CachedColumns
from whence_studies.charts.study_page import as_markdown, page_files, write_study
from whence_studies.charts.study_tables import study_tables
from whence_studies.declared_claims import Claim, ClaimSide
from whence_studies.measurements.measurement import SeedColumn
from whence_studies.measurements.registry import MEASUREMENTS
from whence_studies.records import Record
from whence_studies.results import StudyResults
from whence_studies.study import Cell, Study, StudyModel, find_study

EVIL = "</script><script>alert('x')</script>"


def results(study: Study) -> list[Record]:
    """Synthetic values where the data would be here, one row without any."""
    rng = np.random.default_rng(0)
    found: dict[Cell, dict[str, CachedColumns]] = {}
    cells = [cell for cell in study.cells() if cell.dataset != "Steam"]
    for cell in cells[:-1]:
        columns = {
            column: SeedColumn(
                tuple(map(float, rng.normal(0.82, 0.003, 10))), 6040, "p", "higher is better"
            )
            for column in MEASUREMENTS["accuracy"].columns
        }
        found[cell] = {"accuracy": CachedColumns(tuple(range(10)), columns)}
    found[cells[-1]] = {}
    return StudyResults(study, "2 CPU cores", study.command, found).records()


@pytest.fixture(scope="module")
def study() -> Study:
    return find_study("sequential-accuracy")


@pytest.fixture(scope="module")
def written(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    write_study(study, results(study), folder)
    return folder


def test_one_table_per_measure(study: Study) -> None:
    study = replace(study, models={"SASRec": study.models["SASRec"]})
    records = results(study)
    *measures, claims, _ = study_tables(study, records)
    assert [table.title for table in measures] == [
        "recall@10 of 101",
        "recall@10",
        "NDCG@10",
        "MRR",
    ]
    first = measures[0]
    assert first.headings == ("dataset", *study.variants)
    assert [row[0] for row in first.rows] == list(study.datasets)
    low, high = records[0].interval or (0.0, 0.0)
    assert first.rows[0][1] == f"{records[0].value:.4f} ± {(high - low) / 2:.4f} (> 0.81)"
    assert first.rows[0][2].endswith("(= 0.82)")
    assert first.rows[1][1] == "– (0.70)"
    assert first.rows[3][4] == "– (0.61)"
    assert first.notes == ("– needs your copy of the data: Steam.", "– not run yet: Games.")
    assert claims.headings == ("claim", *study.datasets)
    assert claims.rows[0][1].startswith(("holds: ", "undecided: "))
    assert claims.rows[0][2] == claims.rows[1][4] == "–"


def test_markdown_is_well_formed(study: Study) -> None:
    first, *others = study.claims
    study = replace(study, claims=(replace(first, text="few | many"), *others))
    page = as_markdown(study, results(study))
    assert page.startswith("# Accuracy of sequential recommenders")
    assert "Made by `whence study run sequential-accuracy` on 2 CPU cores." in page
    tables = re.findall(r"(?:^\|.*\|$\n)+", page, re.MULTILINE)
    assert len(tables) == 6
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_charts_are_pictures(written: Path) -> None:
    names = sorted(path.name for path in written.glob("*.svg"))
    assert names == ["sequential-accuracy-claims.svg", "sequential-accuracy-recall.svg"]
    page = (written / "sequential-accuracy.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\((.*\.svg)\)", page)) == names
    for path in written.glob("*.svg"):
        assert ElementTree.fromstring(path.read_text()).tag.endswith("svg")


def test_the_page_loads_no_other_file(written: Path) -> None:
    page = (written / "sequential-accuracy.html").read_text()
    markup = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    links = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'> ]*)|url\(([^)]*)\)""", markup)
    assert all(outer == "" and inner.startswith("#") for outer, inner in links)
    assert "<script src" not in page
    ids = re.findall(r'\bid="([^"]*)"', markup)
    assert len(ids) == len(set(ids))


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_in_a_browser(written: Path, width: int) -> None:
    """The charts answer; no request, no complaint, no sideways scrolling, nothing for axe."""
    with in_browser(written / "sequential-accuracy.html", width) as page:
        page.wait_for_function("document.querySelectorAll('.vega-embed svg').length === 5")
        assert page.locator("svg").count() == 5
        assert page.locator("tbody tr").count() == 2 * (4 * 4 + 2) + 2


def test_names_are_escaped(study: Study, tmp_path: Path) -> None:
    claim = Claim(
        text=EVIL,
        source=EVIL,
        column="MRR",
        of=ClaimSide(EVIL),
        than=ClaimSide(EVIL),
        expect="higher",
    )
    variant = next(iter(study.variants.values()))
    odd = replace(study, title=EVIL, variants={EVIL: variant}, claims=(claim,))
    write_study(odd, results(odd), tmp_path)
    page = (tmp_path / "sequential-accuracy.html").read_text()
    assert page.count("<script") == page.count("</script>") == 2
    assert EVIL not in page


def test_several_models_are_named(study: Study) -> None:
    both = replace(study, models={**study.models, "BERT4Rec": StudyModel(name="bert4rec")})
    records = results(both)
    first, *_, claims, _ = study_tables(both, records)
    assert first.headings[:2] == ("model", "dataset")
    assert [row[:2] for row in first.rows[3:5]] == [("SASRec", "Games"), ("BERT4Rec", "ML-1M")]
    assert first.rows[4][2].endswith("0.77)")
    assert [row[1] for row in claims.rows] == ["SASRec", "BERT4Rec"] * 2
    files = page_files(both, records, html=False)
    assert "BERT4Rec b=1 h=1" in files["sequential-accuracy-recall.svg"].decode()
