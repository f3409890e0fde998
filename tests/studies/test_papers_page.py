"""The page of all claims of the papers, counted again from the records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from whence_studies.charts.papers_page import PAPERS, ClaimLine, papers_page
from whence_studies.records import read_records
from whence_studies.study import Study, find_study, study_files

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


@pytest.fixture(scope="module")
def studies() -> list[Study]:
    return [find_study(name) for name in study_files()]


def test_the_page_is_what_the_records_give(studies: list[Study]) -> None:
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    assert page == papers_page(studies, RESULTS)


def test_every_claim_of_a_paper_is_on_the_page_once(studies: list[Study]) -> None:
    page = papers_page(studies, RESULTS).splitlines()
    expected = set()
    for study in studies:
        judged = {record.row for record in read_records(study.id, RESULTS)}
        for claim in study.claims:
            if claim.text in judged and any(one in claim.source for one in PAPERS):
                expected.add((study.id, claim.stem))
                own = [line for line in page if line.startswith(f"| {claim.stem} |")]
                assert sum(f"/{study.id}.md#" in line for line in own) >= 1
    assert sum("](../results/" in line for line in page) == len(expected) > 100


@pytest.mark.parametrize(
    ("verdicts", "outcome", "counts"),
    [
        (["holds", "holds"], "holds", "holds 2×"),
        (["does not hold"], "does not hold", "does not hold"),
        (["holds", "does not hold"], "depends", "holds 1×, does not hold 1×"),
        (["holds", "undecided"], "undecided", "holds 1×, undecided 1×"),
        (["holds", "does not hold", "undecided"], "depends", None),
        (["holds", "needs your copy of the data"], "holds", "holds 1×, not measurable here 1×"),
        (["needs your copy of the data"] * 2, "not measurable here", "not measurable here 2×"),
        (["needs your copy of the data", "not run yet"], "not run yet", None),
    ],
)
def test_a_claim_is_summed_up_over_datasets_and_models(
    verdicts: list[str], outcome: str, counts: str | None
) -> None:
    study = find_study("sequential-accuracy")
    claim = study.claims[0]
    record = next(one for one in read_records(study.id, RESULTS) if one.row == claim.text)
    line = ClaimLine(study, claim, [replace(record, verdict=one) for one in verdicts])
    assert line.outcome == outcome
    assert counts is None or line.counts == counts
