"""Several readings of a published configuration: which are comparable, and what claims say then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from whence.errors import InputError
from whence_studies.cache import CachedColumns
from whence_studies.charts.papers_page import ClaimLine
from whence_studies.charts.reading_tables import COMPARABLE, READINGS, over_readings, rule_text
from whence_studies.charts.study_tables import study_tables
from whence_studies.checking import check_study
from whence_studies.claims import FAILS, HOLDS, NOT_COMPARABLE, PRINT_OUTSIDE, UNDECIDED
from whence_studies.comparable import bound_of, index_records, is_comparable
from whence_studies.measurements.measurement import SeedColumn
from whence_studies.records import NOT_RUN, Record
from whence_studies.results import StudyResults, judge_by_records
from whence_studies.study import Cell, Study, find_study, read_study, study_files

RECALL, FIRST, LARGEST = "recall@10 of 101", "entropy of α first", "largest entropy"
BY_FIRST, BY_ROLLOUT = "ρ(∇, α first)", "ρ(∇, α)"
MODERATE = (
    "the first block's attention and gradients correlate moderately on sparse data for SASRec"
)


@pytest.fixture
def study() -> Study:
    """The study of initial weights for SASRec with two blocks on Games.

    Published are a recall of 0.60 and an entropy of 2.98.
    """
    study = find_study("sequential-initialisation")
    return replace(
        study,
        datasets={"Games": study.datasets["Games"]},
        models={"SASRec": study.models["SASRec"]},
        variants={name: one for name, one in study.variants.items() if one.reading_of == "b=2"},
        claims=tuple(one for one in study.claims if one.stem == f"{MODERATE}, b=2"),
        seeds=3,
    )


def results(study: Study, values: dict[str, dict[str, float]]) -> list[Record]:
    """Return the records of three seeds near these values, by reading and column."""
    found: dict[Cell, dict[str, CachedColumns]] = {cell: {} for cell in study.cells()}
    for reading, columns in values.items():
        cell = Cell("Games", "SASRec", f"b=2, {reading}")
        for name in study.measurements:
            own = {
                column: SeedColumn((at - 0.001, at, at + 0.001), 9, "9 events", "neither")
                for column, at in columns.items()
                if (column == RECALL) == (name == "accuracy")
            }
            found[cell][name] = CachedColumns((0, 1, 2), own)
    return StudyResults(study, "2 CPU cores", "c", found).records()


def measured(recall: float, entropy: float, correlation: float) -> dict[str, float]:
    return {RECALL: recall, FIRST: entropy, LARGEST: 3.1, BY_FIRST: correlation}


VALUES = {
    "base": measured(0.67, 3.09, 0.5),  # nearly uniform: at most 3.04 is comparable
    "init_std 0.1": measured(0.57, 2.9, 0.5),  # at least 0.58 is comparable
    "init_std 0.2": measured(0.581, 3.039, 0.5),
    "init_std 1": measured(0.7, 2.0, 0.2),
    "PyTorch layers": measured(0.6, 2.98, 0.3),
}


def test_what_is_comparable(study: Study) -> None:
    records = index_records(results(study, VALUES))
    cells = {cell.variant.removeprefix("b=2, "): cell for cell in study.cells()}
    found = {name: is_comparable(study, cell, records) for name, cell in cells.items()}
    assert found == {
        "base": False,
        "init_std 0.1": False,
        "init_std 0.2": True,
        "init_std 1": True,
        "Xavier embeddings": None,
        "PyTorch layers": True,
        "attention biases": None,
    }
    bounds = [bound_of(study, one, cells["base"], records) for one in study.comparable]
    assert bounds == [pytest.approx(0.58), pytest.approx((2.98 + 3.1) / 2)]


def test_verdicts_of_comparable_readings_alone(study: Study) -> None:
    records = results(study, VALUES)
    found = {one.row: one for one in records if one.row.startswith(MODERATE)}
    verdicts = {name.removeprefix(f"{MODERATE}, b=2, "): one.verdict for name, one in found.items()}
    assert verdicts == {
        "base": NOT_COMPARABLE,
        "init_std 0.1": NOT_COMPARABLE,
        "init_std 0.2": HOLDS,
        "init_std 1": FAILS,
        "Xavier embeddings": NOT_RUN,
        "PyTorch layers": UNDECIDED,
        "attention biases": NOT_RUN,
    }
    apart = found[f"{MODERATE}, b=2, base"]
    assert apart.value == pytest.approx(0.5)
    assert apart.interval, "the value is shown"
    assert judge_by_records(study, records) == records


def test_nothing_is_judged_before_it_is_known_to_be_comparable(study: Study) -> None:
    without_recall = {
        name: {column: at for column, at in columns.items() if column != RECALL}
        for name, columns in VALUES.items()
    }
    found = {one.row: one for one in results(study, without_recall)}
    waiting = found[f"{MODERATE}, b=2, init_std 0.2"]
    assert waiting.verdict == NOT_RUN
    assert waiting.value == pytest.approx(0.5)
    assert found[f"{MODERATE}, b=2, base"].verdict == NOT_COMPARABLE, "its entropy is enough"


def test_less_entropy_than_published_is_comparable_wherever_uniform_attention_is(
    study: Study,
) -> None:
    below = {name: {**columns, LARGEST: 2.9} for name, columns in VALUES.items()}
    records = index_records(results(study, below))
    cell = study.cells()[0]
    bounds = [bound_of(study, one, cell, records) for one in study.comparable]
    assert bounds[1] == pytest.approx((2.98 + 2.9) / 2)


def test_a_reading_is_judged_again_when_its_recall_changes(study: Study) -> None:
    records = results(study, VALUES)
    changed = [
        replace(one, value=0.5) if one.row == "b=2, init_std 1" and one.column == RECALL else one
        for one in records
    ]
    found = {one.row: one.verdict for one in judge_by_records(study, changed)}
    assert found[f"{MODERATE}, b=2, init_std 1"] == NOT_COMPARABLE
    assert found[f"{MODERATE}, b=2, init_std 0.2"] == HOLDS


def test_the_tables(study: Study) -> None:
    tables = {one.title: one for one in study_tables(study, results(study, VALUES))}
    rows = {row[1]: row[2:] for row in tables[COMPARABLE].rows}
    assert rows["b=2, base"] == ("0.670 (≥ 0.580)", "3.090 (≤ 3.040)", "no")
    assert rows["b=2, PyTorch layers"] == ("0.600 (≥ 0.580)", "2.980 (≤ 3.040)", "yes")
    assert rows["b=2, attention biases"] == ("– (≥ 0.580)", "– (≤ –)", "–")
    assert tables[READINGS].rows == (
        (
            f"{MODERATE}, b=2",
            "depends on initialisation: holds 1×, undecided 1×, does not hold 1×, "
            "not comparable 2×",
        ),
    )
    assert len(tables["Claims"].rows) == 7
    ((text, _, comparison),) = tables["How each claim is judged"].rows
    assert text == f"{MODERATE}, b=2"
    assert comparison.startswith("mean over seeds of “ρ(∇, α first)”, 95 %")
    recall = tables[RECALL]
    assert recall.headings == ("variant", "Games")
    assert recall.rows[0] == ("b=2, base", "0.6700 ± 0.0025 (> 0.60)")


def test_one_line_on_the_page_of_papers(study: Study) -> None:
    records = [one for one in results(study, VALUES) if one.row.startswith(MODERATE)]
    line = ClaimLine(study, study.claims[0], records)
    assert line.outcome == "depends on initialisation"
    assert line.counts == (
        "holds 1×, does not hold 1×, undecided 1×, not comparable 2×, not run yet 2×"
    )
    apart = [replace(one, verdict=NOT_COMPARABLE) for one in records]
    assert ClaimLine(study, study.claims[0], apart).outcome == NOT_COMPARABLE


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([HOLDS, HOLDS, NOT_COMPARABLE], "holds 2×, not comparable 1×"),
        ([HOLDS, UNDECIDED], "holds 1×, undecided 1×"),
        ([FAILS, NOT_COMPARABLE], "does not hold 1×, not comparable 1×"),
        ([FAILS, HOLDS], "depends on initialisation: holds 1×, does not hold 1×"),
        ([PRINT_OUTSIDE] * 2, "print outside the band 2×"),
        ([NOT_RUN], "–"),
    ],
)
def test_only_opposite_verdicts_depend(study: Study, verdicts: list[str], said: str) -> None:
    assert over_readings(study, verdicts) == said


def test_the_rule_in_words(study: Study) -> None:
    assert [rule_text(one) for one in study.comparable] == [
        "recall@10 of 101: at most 0.02 less than the published value",
        "entropy of α first: at most 0.5 of the way from the published value of b=2 to the "
        "largest entropy",
    ]


def test_readings_share_published_values_and_differ_by_one_setting() -> None:
    study = find_study("sequential-initialisation")
    agreement = {f"b={b}": find_study(f"sequential-agreement-b{b}") for b in (2, 3)}
    accuracy, entropy = find_study("sequential-accuracy"), find_study("sequential-entropy")
    for cell in study.cells():
        reading = study.variants[cell.variant].reading_of or ""
        sources = {RECALL: (accuracy, f"{reading} h=1"), FIRST: (entropy, f"{reading} h=1")}
        for column in (BY_FIRST, BY_ROLLOUT, "ρ(∇, α last)"):
            sources[column] = (agreement[reading], "points by history length")
        for column, (source, variant) in sources.items():
            printed = source.published_text(column, replace(cell, variant=variant))
            assert study.published_text(column, cell) == printed
        base = study.settings_of(replace(cell, variant=f"{reading}, base"))
        own = study.settings_of(cell)
        assert own[1] == base[1]
        assert base[0]["n_blocks"] == own[0]["n_blocks"] == int(reading[-1])
        changed: dict[str, Any] = {
            name: value for name, value in own[0].items() if base[0].get(name) != value
        }
        assert len(changed) == (not cell.variant.endswith("base"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (('readings_of = "b=2"', 'readings_of = "b=4"'), "no variant is a reading of “b=4”"),
        (('towards = "largest entropy"', ""), "needs towards and share"),
        (('published_as = "b=2"', ""), "has no published value for"),
        (('column = "recall@10 of 101"\nexpect', 'column = "recall"\nexpect'), "no column"),
    ],
)
def test_what_is_refused(change: tuple[str, str], sentence: str, tmp_path: Path) -> None:
    path = study_files()["sequential-initialisation"]
    text = path.read_text(encoding="utf-8")
    assert change[0] in text
    changed = tmp_path / path.name
    changed.write_text(text.replace(*change), encoding="utf-8")
    printed = tmp_path / "published"
    printed.mkdir()
    name = "sequential-initialisation.json"
    (printed / name).write_bytes((path.parent / "published" / name).read_bytes())
    with pytest.raises(InputError, match=sentence):
        check_study(read_study(changed, "changed"))
