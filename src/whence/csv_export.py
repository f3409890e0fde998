"""CSV files whose texts no spreadsheet takes for formulas."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

FORMULA = r"('*[\pZ\pC]*[=+\-@＝＋－＠\x00-\x1f])"
"""How a text starts that a spreadsheet may calculate (OWASP: CSV injection), also after blanks.

Apostrophes before it count too, so that one can be removed to get the text back.
"""


class CSVWriter(pa_csv.CSVWriter):  # type: ignore[misc]
    """Writes tables, with an apostrophe before each text that could be a formula."""

    def write_table(self, table: pa.Table, *args: Any) -> None:  # noqa: ANN401
        """Write the rows of a table; numbers stay as they are."""
        super().write_table(without_formulas(table), *args)


def without_formulas(table: pa.Table) -> pa.Table:
    """Return the table with an apostrophe before each text that could be a formula."""
    return _with_texts(table, f"^{FORMULA}", r"'\1")


def with_formulas(table: pa.Table) -> pa.Table:
    """Return the texts as they were before `without_formulas`."""
    return _with_texts(table, f"^'{FORMULA}", r"\1")


def _with_texts(table: pa.Table, pattern: str, new: str) -> pa.Table:
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            texts = pc.replace_substring_regex(table[place], pattern, new, max_replacements=1)
            table = table.set_column(place, field, texts)
    return table
