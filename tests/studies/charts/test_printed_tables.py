"""Studies that fill printed tables: every record in one cell, and no more said than is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from whence.report.charts import to_png
from whence_studies.charts.printed_tables import INTERVALS, PUBLISHED, printed_tables
from whence_studies.charts.skip_charts import selection_charts
from whence_studies.records import NEEDS_FILE, Record
from whence_studies.skips import EXPERTS

COUNTED = Record(
    study="s",
    dataset="d",
    row="Beauty",
    column="users",
    value=52_204.0,
    published=52_024.0,
    verdict="differs: two digits are swapped",
    protocol="Table 1",
    machine="m",
    command="c",
)
TRAINED = replace(
    COUNTED,
    row="network",
    column="accuracy",
    value=80.06,
    interval=(79.55, 80.57),
    n=20_000,
    seeds=(0, 1),
    published=None,
    verdict="not published",
    protocol="Made here; 100 steps",
)


def test_counts_are_shown_with_published_values() -> None:
    same = replace(COUNTED, column="items", value=3.0, published=3.0, verdict="equal")
    absent = replace(COUNTED, row="Steam", value=None, verdict=NEEDS_FILE)
    (table,) = printed_tables([COUNTED, same, absent])
    assert table.title == "Table 1"
    assert table.headings == ("row", "users", "items")
    assert table.rows == (
        ("Beauty", "52,204 (≠ 52,024)", "3 (= 3)"),
        ("Steam", "– (52,024)", ""),
    )
    assert table.legend == PUBLISHED
    assert table.notes == (
        "Beauty, users: two digits are swapped.",
        "– needs your copy of the data: Steam.",
    )


def test_tables_are_separate_and_rows_name_their_protocol() -> None:
    other = replace(TRAINED, row="last", seeds=(), protocol="Made here", interval=(79.06, 81.06))
    counted, made = printed_tables([COUNTED, TRAINED, other])
    assert counted.title == "Table 1"
    assert made.title == "Made here"
    assert made.rows == (("network", "80.06 ± 0.51"), ("last", "80.1 ± 1.0"))
    assert (made.legend, made.notes) == (INTERVALS, ())
    assert made.measured == (("2 seeds, 20,000 cases each: network", "100 steps"),)


def test_a_table_with_many_columns_is_turned() -> None:
    """And columns that fewer rows have stand apart."""
    many = [replace(TRAINED, column=f"c{number}") for number in range(19)]
    both = [replace(one, row="second") for one in many[:9]]
    table, rest = printed_tables([*many, *both])
    assert table.headings == ("measure", "network", "second")
    assert [row[0] for row in table.rows] == [f"c{number}" for number in range(9)]
    assert table.rows[0][2] == "80.06 ± 0.51"
    assert table.measured == (("2 seeds, 20,000 cases each", "100 steps"),)
    assert rest.title == "Made here, part 2"
    assert [row[0] for row in rest.rows] == [f"c{number}" for number in range(9, 19)]


def test_selections_of_experts_are_drawn() -> None:
    records = [
        replace(TRAINED, row=row, column=f"{what}: {name}", value=10.0, interval=(8.0, 11.0))
        for row in ("one", "two")
        for what in ("most selected", "mean attribution")
        for name in EXPERTS.names
    ]
    assert selection_charts([COUNTED, TRAINED]) == {}
    ((title, chart),) = selection_charts([COUNTED, TRAINED, *records]).items()
    assert title == "Made here, part 2"
    drawn = chart.to_dict()
    rows = drawn["datasets"][drawn["data"]["name"]]
    assert len(rows) == len(records)
    assert {row["of"] for row in rows} == {"one", "two"}
    assert rows[0]["value"] == pytest.approx(0.1)
    assert (rows[0]["low"], rows[0]["high"]) == pytest.approx((0.08, 0.11))
    assert to_png(chart).startswith(b"\x89PNG")
