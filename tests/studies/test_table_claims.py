"""Claims of studies that fill tables, judged from the records: against scipy, and by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from whence.errors import InputError
from whence_studies.charts.claim_tables import JUDGED, OTHER_SETTING
from whence_studies.charts.overview import claims_text
from whence_studies.charts.study_charts import study_charts
from whence_studies.charts.study_page import as_markdown
from whence_studies.charts.study_tables import study_tables
from whence_studies.checking import check_study
from whence_studies.claims import FAILS, HOLDS, UNDECIDED, over_seeds
from whence_studies.declared_claims import Claim, ClaimSide, Expectation
from whence_studies.records import NEEDS_FILE, NOT_RUN, Record, fill_from_earlier
from whence_studies.results import check_records, judge_by_records, rows_done
from whence_studies.study import Study, find_study

ONE, TWO = [80.1, 80.3, 80.2, 80.6], [79.0, 79.4, 78.7, 79.2]
SOURCE = "new here"


def record(row: str, column: str, values: list[float], verdict: str = "not published") -> Record:
    return Record(
        study="attribution-skips",
        dataset="listening",
        row=row,
        column=column,
        **over_seeds(values)._asdict(),
        n=100,
        seeds=tuple(range(len(values))),
        published=None,
        verdict=verdict,
        protocol="Sessions made here; somehow",
        machine="a machine",
        command="whence study run attribution-skips",
    )


def side(row: str, column: str | None = None) -> ClaimSide:
    return ClaimSide(dataset="listening", variant=row, column=column)


def claim(
    expect: Expectation, than: str | None = "two", limit: float = 0.0, margin: float = 0.0
) -> Claim:
    return Claim(
        text="it is so",
        source=SOURCE,
        column="accuracy",
        of=side("one"),
        than=None if than is None else side(than),
        expect=expect,
        limit=limit,
        margin=margin,
    )


def study_with(*claims: Claim) -> Study:
    return replace(find_study("attribution-skips"), claims=claims)


CELLS = [record("one", "accuracy", ONE), record("two", "accuracy", TWO)]


def test_two_rows_are_compared_as_welch_does() -> None:
    study = study_with(claim("higher"))
    *cells, judged = judge_by_records(study, CELLS)
    assert cells == CELLS
    reference = stats.ttest_ind(ONE, TWO, equal_var=False).confidence_interval(0.95)
    assert judged.value == pytest.approx(np.mean(ONE) - np.mean(TWO))
    assert judged.interval == pytest.approx((reference.low, reference.high))
    assert (judged.verdict, judged.row, judged.column) == (HOLDS, "it is so", "accuracy")
    assert judged.dataset == "listening"
    assert judged.seeds == (0, 1, 2, 3)
    assert "“listening, one” minus “listening, two”, means over seeds, Welch's" in judged.protocol
    assert judge_by_records(study, [*CELLS, judged]) == [*CELLS, judged], "once"
    check_records(study, [*CELLS, judged])
    assert rows_done(study, [*CELLS, judged]) == (2, 2), "a claim is no row"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (claim("higher", None, limit=79.5), HOLDS),
        (claim("higher", None, limit=85), FAILS),
        (claim("higher", None, limit=80.3), UNDECIDED),
        (claim("not lower", margin=1), HOLDS),
        (claim("lower"), FAILS),
        (claim("strong", None), HOLDS),
        (claim("weak", None), FAILS),
    ],
)
def test_a_row_is_compared_with_a_limit_or_a_row(made: Claim, expected: str) -> None:
    judged = judge_by_records(study_with(made), CELLS)[-1]
    assert judged.verdict == expected


def test_a_factor_multiplies_a_record() -> None:
    made = claim("higher")
    made = replace(made, of=replace(made.of, times=2.0))
    judged = judge_by_records(study_with(made), CELLS)[-1]
    reference = stats.ttest_ind(2 * np.array(ONE), TWO, equal_var=False).confidence_interval(0.95)
    assert judged.interval == pytest.approx((reference.low, reference.high))
    alone = replace(claim("higher", None, limit=155), of=made.of)
    judged = judge_by_records(study_with(alone), CELLS)[-1]
    assert judged.value == pytest.approx(2 * np.mean(ONE))
    assert judged.verdict == HOLDS


def test_a_verdict_follows_its_claim_and_shows_its_sensitivity() -> None:
    study = study_with(claim("higher", margin=1.5))
    records = judge_by_records(study, CELLS)
    judged = records[-1]
    assert judged.interval is not None
    low, high = judged.interval
    assert 0.75 < low < 1.5 < high < 3.0, "decided at half and at double only"
    assert (judged.verdict, judged.at_half, judged.at_double) == (UNDECIDED, HOLDS, FAILS)
    table, how = study_tables(study, records)[-2:]
    assert table.rows[0][-1].endswith("; at half: holds; at double: does not hold")
    assert any(note.startswith("At half, at double") for note in table.notes)
    assert how.headings[-1] == "our thresholds"
    expected = "margin 1.5; verdicts that change: 1 of 1 at half, 1 at double"
    assert how.rows[0][-1] == expected
    other = study_with(claim("higher", margin=0.1))
    again = judge_by_records(other, records)[-1]
    assert (again.verdict, again.at_half, again.at_double) == (HOLDS, HOLDS, HOLDS)
    assert "at half" not in str(study_tables(other, [*CELLS, again])[-2].rows)


def test_transferred_claims_stand_apart() -> None:
    moved = replace(claim("lower"), text="so they say of texts", transferred_from="texts")
    study = study_with(claim("higher"), moved)
    records = judge_by_records(study, CELLS)
    _, own, other, how = study_tables(study, records)
    assert (own.title, other.title) == ("Claims", "Transferred claims")
    assert [row[0] for row in own.rows] == ["it is so (accuracy)"]
    assert [row[0] for row in other.rows] == ["so they say of texts (accuracy)"]
    assert OTHER_SETTING in other.notes
    assert OTHER_SETTING not in own.notes
    assert [row[1] for row in how.rows] == [SOURCE, f"{SOURCE}, of texts"]
    assert list(study_charts(study, records)) == ["Claims", "Transferred claims"]
    assert claims_text(study, records) == "1 hold; transferred: 1 do not hold"
    assert claims_text(study_with(moved), records[:2] + records[3:]) == "transferred: 1 do not hold"
    assert claims_text(study_with(), CELLS) == "–"


def test_an_absent_side_says_why() -> None:
    study = study_with(claim("higher"))
    only = judge_by_records(study, CELLS[:1])
    assert (only[-1].value, only[-1].verdict) == (None, NOT_RUN)
    absent = [CELLS[0], record("two", "accuracy", [], NEEDS_FILE)]
    judged = judge_by_records(study, absent)
    assert (judged[-1].value, judged[-1].verdict) == (None, NEEDS_FILE)
    assert judged[-1].seeds == ()
    one_seed = [CELLS[0], record("two", "accuracy", [79.0])]
    assert judge_by_records(study, one_seed)[-1].verdict == UNDECIDED
    former = judge_by_records(study, CELLS)
    again = judge_by_records(study, fill_from_earlier(judged, former))
    assert again == former, "what was found before is judged again"


def test_a_missing_record_takes_the_reason_of_its_row() -> None:
    """Cells of a file that is not there are written for some columns alone."""
    study = study_with(claim("higher", None, limit=50))
    other = record("one", "accuracy of the first track", [], NEEDS_FILE)
    assert judge_by_records(study, [CELLS[1], other])[-1].verdict == NEEDS_FILE
    elsewhere = replace(other, dataset="spotify-sessions")
    assert judge_by_records(study, [CELLS[1], elsewhere])[-1].verdict == NOT_RUN


def test_sides_of_other_columns() -> None:
    made = Claim(
        text="it is so",
        source=SOURCE,
        of=side("one", "steady"),
        than=side("two", "shaky"),
        expect="lower",
    )
    cells = [record("one", "steady", [0.1, 0.2, 0.1]), record("two", "shaky", [0.7, 0.9, 0.8])]
    assert judge_by_records(study_with(made), cells)[-1].verdict == HOLDS


def test_claims_follow_the_tables_and_have_a_chart() -> None:
    study = study_with(claim("higher"), replace(claim("lower", "three"), text="or so"))
    records = judge_by_records(study, CELLS)
    tables = study_tables(study, records)
    assert [table.title for table in tables] == ["Sessions made here", "Claims", JUDGED]
    assert tables[1].rows[1] == ("or so (accuracy)", "listening", "–")
    page = as_markdown(study, records)
    value, (low, high) = records[2].value, records[2].interval or (0, 0)
    said = f"holds: {value:.4f} [{low:.4f}, {high:.4f}]"
    assert f"| it is so (accuracy) | listening | {said} |" in page
    assert "| it is so | new here | “listening, one” minus “listening, two”, means" in page
    assert "– not run yet: listening." in page
    charts = study_charts(study, records)
    assert list(charts) == ["Claims"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (replace(claim("higher"), of=ClaimSide("one")), "give a dataset and a row on each side"),
        (replace(claim("higher"), column=None), "names no column"),
        (claim("strong"), "expects a band and takes no second side"),
        (claim("spread lower", None), "needs a second side"),
    ],
)
def test_invalid_claims_are_refused(wrong: Claim, said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_study(study_with(wrong))
    with pytest.raises(InputError, match="'it is so' occurs twice among the claims"):
        check_study(study_with(claim("higher"), claim("lower")))
