"""Tables of studies that fill published tables instead of measuring trained runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whence_studies.charts.cells import ABSENT, MeasuredOn, StudyTable, cell_text, number_text
from whence_studies.records import Record
from whence_studies.tables.dataset_statistics import DIFFERS

MOST_COLUMNS = 8
"""A table with more columns is turned, so that its rows become columns."""
INTERVALS = "± half of the 95 % interval: over seeds if there are several, otherwise over cases."
PUBLISHED = (
    "In brackets the published value: = equal, or inside the interval to the published precision; "
    "≠ different; > higher here; < lower here."
)


def printed_tables(records: Sequence[Record]) -> list[StudyTable]:
    """Return every table."""
    return [_table(title, own) for title, own in by_table(records).items()]


def by_table(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each table; the start of their protocol is its title.

    A table with many columns is divided into columns that have the same rows.
    """
    by_title: dict[str, list[Record]] = {}
    for record in records:
        by_title.setdefault(_title(record), []).append(record)
    tables = {}
    for title, own in by_title.items():
        rows_of: dict[str, list[str]] = {}
        for record in own:
            rows_of.setdefault(record.column, []).append(record.row)
        if len(rows_of) <= MOST_COLUMNS:
            tables[title] = own
            continue
        parts: dict[tuple[str, ...], list[Record]] = {}
        for record in own:
            parts.setdefault(tuple(rows_of[record.column]), []).append(record)
        for number, part in enumerate(parts.values(), start=1):
            tables[title if number == 1 else f"{title}, part {number}"] = part
    return tables


def _title(record: Record) -> str:
    return record.protocol.partition("; ")[0]


def _table(title: str, records: Sequence[Record]) -> StudyTable:
    found = {(record.row, record.column): record for record in records}
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*found, strict=True))
    if len(columns) <= MOST_COLUMNS:
        headings = ("row", *columns)
        texts = [(row, *(_text(found.get((row, one))) for one in columns)) for row in rows]
    else:
        headings = ("measure", *rows)
        texts = [(one, *(_text(found.get((row, one))) for row in rows)) for one in columns]
    return StudyTable(
        title,
        headings,
        tuple(texts),
        legend=_legend(records),
        notes=_notes(records),
        measured=_measured(records),
        numbers=len(headings) - 1,
    )


def _text(record: Record | None) -> str:
    if record is None:
        return ""
    return cell_text(record, None if record.published is None else number_text(record.published))


def _legend(records: Sequence[Record]) -> str:
    values = [record for record in records if record.value is not None]
    said = [INTERVALS] if any(record.interval for record in values) else []
    if any(record.published is not None for record in values):
        said.append(PUBLISHED)
    return " ".join(said)


def _notes(records: Sequence[Record]) -> tuple[str, ...]:
    """Return why published values differ, and why values are absent."""
    differing = [
        f"{record.row}, {record.column}: {record.verdict.removeprefix(f'{DIFFERS}: ')}."
        for record in records
        if record.value is not None and record.verdict.startswith(f"{DIFFERS}: ")
    ]
    absent = {_place(one): f"{ABSENT} {one.verdict}" for one in records if one.value is None}
    return (*differing, *(f"{text}." for text in _with_rows(records, absent)))


def _measured(records: Sequence[Record]) -> tuple[MeasuredOn, ...]:
    """Return how the trained rows were made, with the rows that each applies to."""
    made: dict[str, dict[tuple[str, str], str]] = {}
    for one in records:
        if one.value is not None and one.seeds:
            how = one.protocol.removeprefix(f"{_title(one)}; ")
            sizes = f"{len(one.seeds)} seeds, {one.n:,} cases each"
            made.setdefault(how, {})[_place(one)] = sizes
    return tuple(
        MeasuredOn(sizes, how)
        for how, places in made.items()
        for sizes in _with_rows(records, places)
    )


def _place(record: Record) -> tuple[str, str]:
    return record.row, record.column


def _with_rows(records: Sequence[Record], texts: Mapping[tuple[str, str], str]) -> list[str]:
    """Return each text, followed by the rows it applies to if these are not all rows."""
    rows = dict.fromkeys(record.row for record in records)
    of: dict[str, dict[str, None]] = {}
    for (row, _), text in texts.items():
        of.setdefault(text, {})[row] = None
    return [
        text if len(some) == len(rows) else f"{text}: {'; '.join(some)}"
        for text, some in of.items()
    ]
