"""Dates are read in every ISO form, and those that cannot be read are named."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bounded import bounded
from whence.data import ReadOptions, load
from whence.data.readers.dates import NUMBER, OTHER_DATE, is_number, like_time
from whence.errors import InputError

MIXED = {
    "2024-01-05": 1704412800,
    "2024-01-05 10:00": 1704448800,
    "2024-01-05T10:00:01": 1704448801,
    "2024-01-05T10:00:02Z": 1704448802,
    "2024-01-05T12:00:03+02:00": 1704448803,
    "2024-01-05 06:00:04.5-0400": 1704448804,
    "2024-01-05T10:00:05.123456789Z": 1704448805,
}
"""Every ISO form, in the order of time, with the seconds since 1970."""


def written(values: list[str], name: str) -> dict[str, list[object]]:
    """Return events of one user whose items are numbered backwards."""
    count = len(values)
    items: list[object] = list(range(count, 0, -1))
    return {"user": [1] * count, "item": items, name: list(values)}


def as_csv(columns: dict[str, list[object]], path: Path) -> Path:
    lines = [
        ",".join(columns),
        *(",".join(f'"{v}"' for v in row) for row in zip(*columns.values(), strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def as_lines(columns: dict[str, list[object]], path: Path, write: Callable[[object], str]) -> Path:
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(map(write, rows)) + "\n")
    return path


def as_parquet(columns: dict[str, list[object]], path: Path) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


SOURCES: dict[str, Callable[[dict[str, list[object]], Path], object]] = {
    "csv": as_csv,
    "json": lambda columns, path: as_lines(columns, path, json.dumps),
    "literals": lambda columns, path: as_lines(columns, path, repr),
    "parquet": as_parquet,
    "arrow": lambda columns, _: pa.table(columns),
    "pandas": lambda columns, _: pd.DataFrame(columns),
    "polars": lambda columns, _: pl.DataFrame(columns),
}
every_source = pytest.mark.parametrize("source", SOURCES)


def make(source: str, tmp_path: Path, values: list[str], name: str = "when") -> object:
    return SOURCES[source](written(values, name), tmp_path / "events")


@every_source
def test_iso_forms_may_mix_in_one_column(source: str, tmp_path: Path) -> None:
    made = make(source, tmp_path, list(MIXED)[::-1])
    data = load(made)  # type: ignore[arg-type]
    assert data.times is not None
    assert data.times.tolist() == list(MIXED.values())
    assert data.catalog.raw_ids(data.history(0)) == list(range(1, len(MIXED) + 1))


UNREADABLE = {
    "American": (["01/05/2024", "12/31/2024"], "'01/05/2024' is not a date"),
    "German": (["5.1.2024", "31.12.2024 10:00"], "'5.1.2024' is not a date"),
    "in words": (["Jan 5, 2024", "December 31, 2024"], "'Jan 5, 2024' is not a date"),
    "RFC 2822": (["Fri, 5 Jan 2024 10:00:00 +0200"] * 2, "'Fri, 5 Jan 2024 .*' is not a date"),
    "mostly ISO": (["2024-01-05", "soon", "2024-01-06"], "'soon' is not a date"),
    "with a gap": (["2024-01-05", " ", "2024-01-06"], "the value is missing"),
}


@every_source
@pytest.mark.parametrize("form", UNREADABLE)
def test_dates_that_cannot_be_read_are_named(source: str, form: str, tmp_path: Path) -> None:
    values, said = UNREADABLE[form]
    made = make(source, tmp_path, values, "when")
    with pytest.warns(
        UserWarning, match=f"'when' seems to hold dates, but in row .*{said}"
    ) as noted:
        data = load(made)  # type: ignore[arg-type]
    assert data.times is None
    assert "The order of the rows is used" in str(noted[0].message)
    assert "--time none" in str(noted[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(made, ReadOptions(time="none"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="row .*, column 'when'"):
        load(made, ReadOptions(time="when"))  # type: ignore[arg-type]


@pytest.mark.parametrize("row", [2, 3])
def test_the_note_counts_rows_as_people_do(row: int, tmp_path: Path) -> None:
    values = ["2024-01-05"] * 4
    values[row - 2] = "5.1.2024"
    with pytest.warns(UserWarning, match=f"in row {row} '5.1.2024'"):
        load(as_csv(written(values, "bought"), tmp_path / "events"))


@pytest.mark.parametrize(
    ("name", "values"),
    [("created", ["early", "late"]), ("order_time", ["a", "b"]), ("createdTs", ["1500000000"] * 2)],
)
def test_a_name_can_tell_that_a_column_holds_dates(
    name: str, values: list[str], tmp_path: Path
) -> None:
    with pytest.warns(UserWarning, match=f"'{name}' seems to hold dates"):
        load(as_csv(written(values, name), tmp_path / "events"))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("play_time", ["12", "7.5"]),
        ("version", ["1.2.3", "10.0.1"]),
        ("address", ["10.0.0.1", "192.168.0.1"]),
        ("genre", ["Mar", "May"]),
        ("sentiment", ["good", "bad"]),
        ("phone", ["555-1234-55", "030-12-345678"]),
    ],
)
def test_other_columns_make_no_note(name: str, values: list[str], tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(as_csv(written(values, name), tmp_path / "events")).times is None


def test_a_known_name_stays_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="row 3, column 'date': '5.1.2024' is not a time like"):
        load(as_csv(written(["2024-01-05", "5.1.2024"], "date"), tmp_path / "events"))


def test_a_key_that_some_records_lack_is_named(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_text('{"user": 1, "item": 1, "time": "2024-01-05"}\n{"user": 1, "item": 2}\n')
    with pytest.warns(
        UserWarning, match="'time' seems to hold dates, but in row 2 the value is mis"
    ):
        load(path)


def test_a_note_shows_no_harmful_character(tmp_path: Path) -> None:
    values = ["5.1.2024 \u202e\x1b[31m", "5.1.2024"]
    with pytest.warns(UserWarning, match="seems to hold dates") as noted:
        load(as_csv(written(values, "when"), tmp_path / "events"))
    assert "\\u202e\\x1b[31m" in str(noted[0].message)


@given(st.text(st.characters(max_codepoint=0x700), max_size=20))
def test_whatever_is_like_a_time_can_be_compared(text: str) -> None:
    assert like_time(text) in (True, False)
    if is_number(text):
        float(text)


RUNS = ["1", " ", '"', "'", ",", "[", "\\", "-", ".", "e", "1.", "1e", "1/", "a "]


@pytest.mark.parametrize("pattern", [NUMBER, OTHER_DATE], ids=["number", "date"])
@pytest.mark.parametrize("run", RUNS)
def test_no_pattern_takes_long(pattern: re.Pattern[str], run: str) -> None:
    long = run * 100_000
    with bounded():
        for text in (long, long + "x", "1" + long, "Jan" + long):
            pattern.fullmatch(text)
            pattern.match(text)
