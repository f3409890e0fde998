"""CSV files: no text is a formula, numbers are numbers, and every text can be read back."""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.csv_export import CSVWriter, with_formulas, without_formulas

FIRST = "=+-@＝＋－＠\t\r\n\0"
"""What OWASP lists as the start of a formula."""
texts = st.text(st.sampled_from("'=+-@＝＋－＠\t\r\n\0 \u3000\u00a0ax,;\"1")) | st.text()


def written(**columns: list[object]) -> list[list[str]]:
    """Write the columns, and return the cells that a spreadsheet finds."""
    table = pa.table(columns)
    sink = io.BytesIO()
    with CSVWriter(sink, table.schema) as writer:
        writer.write_table(table)
    content = io.StringIO(sink.getvalue().decode(), newline="")
    return list(csv.reader(content))[1:]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1", "'+1"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("  =1", "'  =1"),
        ("\u3000=1", "'\u3000=1"),
        ("＝1", "'＝1"),
        ("\x85=1", "'\x85=1"),
        ("\ufeff=1", "'\ufeff=1"),
        ("'=1", "''=1"),
        ("'Tis = fine", "'Tis = fine"),
        ("a=1", "a=1"),
        ('",=1', '",=1'),
        ("", ""),
    ],
)
def test_texts(text: str, cell: str) -> None:
    assert written(title=[text, "other"])[0] == [cell]


@given(st.lists(texts, min_size=1), st.sampled_from([pa.string(), pa.large_string()]))
def test_no_text_is_a_formula(values: list[str], kind: pa.DataType) -> None:
    table = pa.table({"title": pa.array(values, kind)})
    found = without_formulas(table)
    for value, cell in zip(values, found["title"].to_pylist(), strict=True):
        assert not cell.startswith(tuple(FIRST))
        assert not cell.strip().startswith(tuple(FIRST))
        assert cell in (value, f"'{value}")
    assert with_formulas(found).equals(table), "every text can be read back"


@given(st.lists(texts))
def test_a_spreadsheet_finds_the_same_cells(values: list[str]) -> None:
    cells = written(title=[*values, "last"], rank=[*range(len(values)), -5])
    read = pa.table({"title": [title for title, _ in cells]})
    assert with_formulas(read)["title"].to_pylist() == [*values, "last"]
    assert [rank for _, rank in cells] == [*map(str, range(len(values))), "-5"]


def test_numbers_and_nothing_stay() -> None:
    cells = written(user=[-5, 7], title=[None, "=x"], score=[-0.5, float("-inf")])
    assert cells == [["-5", "", "-0.5"], ["7", "'=x", "-inf"]]
