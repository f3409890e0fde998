"""Studies that fill printed tables, of other things than trained runs, as tables again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whence_studies.charts.cells import ABSENT, StudyTable, cell_text, shown
from whence_studies.records import Record
from whence_studies.tables.dataset_statistics import DIFFERS

MOST_ACROSS = 8
"""Of a table with more columns, rows go across."""
SPREAD = "± half of the 95 % interval, over seeds where there are several, else over cases."
PUBLISHED = (
    "In brackets what is published: = the same, or in the interval as far as it is printed; ≠ not "
    "the same; > higher here; < lower here."
)


def tabulated(records: Sequence[Record]) -> list[StudyTable]:
    """All tables there are."""
    return [_table(title, own) for title, own in by_table(records).items()]


def by_table(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each, under the name that protocols begin with.

    One of many columns is divided into those that the same rows have.
    """
    named: dict[str, list[Record]] = {}
    for record in records:
        named.setdefault(_title(record), []).append(record)
    found = {}
    for title, own in named.items():
        rows_of: dict[str, list[str]] = {}
        for record in own:
            rows_of.setdefault(record.column, []).append(record.row)
        if len(rows_of) <= MOST_ACROSS:
            found[title] = own
            continue
        parts: dict[tuple[str, ...], list[Record]] = {}
        for record in own:
            parts.setdefault(tuple(rows_of[record.column]), []).append(record)
        for number, part in enumerate(parts.values(), start=1):
            found[title if number == 1 else f"{title}, part {number}"] = part
    return found


def _title(record: Record) -> str:
    return record.protocol.partition("; ")[0]


def _table(title: str, records: Sequence[Record]) -> StudyTable:
    found = {(record.row, record.column): record for record in records}
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*found, strict=True))
    if len(columns) <= MOST_ACROSS:
        headings = ("row", *columns)
        texts = [(row, *(_text(found.get((row, one))) for one in columns)) for row in rows]
    else:
        headings = ("measure", *rows)
        texts = [(one, *(_text(found.get((row, one))) for row in rows)) for one in columns]
    return StudyTable(title, headings, tuple(texts), _notes(records), numbers=len(headings) - 1)


def _text(record: Record | None) -> str:
    if record is None:
        return ""
    return cell_text(record, None if record.published is None else shown(record.published))


def _notes(records: Sequence[Record]) -> tuple[str, ...]:
    """How to read the cells, how rows came about, and what is to be said of a single one."""
    values = [record for record in records if record.value is not None]
    notes = [SPREAD] if any(record.interval for record in values) else []
    if any(record.published is not None for record in values):
        notes.append(PUBLISHED)
    notes += _said(records, {_about(one): _made(one) for one in values if one.seeds})
    notes += [
        f"{record.row}, {record.column}: {record.verdict.removeprefix(f'{DIFFERS}: ')}."
        for record in values
        if record.verdict.startswith(f"{DIFFERS}: ")
    ]
    absent = {_about(one): f"{ABSENT} {one.verdict}" for one in records if one.value is None}
    return (*notes, *_said(records, absent))


def _about(record: Record) -> tuple[str, str]:
    return record.row, record.column


def _made(record: Record) -> str:
    how = record.protocol.removeprefix(f"{_title(record)}; ")
    return f"{how}; {len(record.seeds)} seeds, {record.n:,} cases each"


def _said(records: Sequence[Record], words: Mapping[tuple[str, str], str]) -> list[str]:
    """Each with the rows it is said of, where it is not said of all."""
    rows = dict.fromkeys(record.row for record in records)
    of: dict[str, dict[str, None]] = {}
    for (row, _), said in words.items():
        of.setdefault(said, {})[row] = None
    return [
        f"{said}." if len(some) == len(rows) else f"{said}: {'; '.join(some)}."
        for said, some in of.items()
    ]
