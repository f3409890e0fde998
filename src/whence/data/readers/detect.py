"""Detection of a file's format, by its first bytes and never by its name."""

from __future__ import annotations

import codecs
from dataclasses import replace
from pathlib import Path

from whence.data.addresses import public_name
from whence.data.readers.arrow import ParquetTable
from whence.data.readers.dates import like_time
from whence.data.readers.delimited import (
    MOST_COLUMNS,
    DelimitedFile,
    decoded_sample,
    separator_of,
    split_rows,
)
from whence.data.readers.records import UNREADABLE, RecordFile, parse_json, parse_literal
from whence.data.readers.sequences import SequenceFile
from whence.data.readers.source_files import encoding_of, not_in_encoding, sample
from whence.data.readers.tabular import ReadOptions, Tabular, guess_roles
from whence.errors import InputError
from whence.reading import check_regular

NOT_TABLES = {
    b"PK\x03\x04": "a zip archive. Unpack it, and give a file in it",
    b"SQLite format 3": "a SQLite database. Give sqlite:///{path} and --query 'SELECT …'",
}
"""The first bytes of files that cannot be read directly, and what to do instead."""


def open_tabular(path: Path, reading: ReadOptions) -> Tabular:
    """Return the file as a table whose columns can be read."""
    if not path.exists():
        raise InputError(f"There is no file '{public_name(str(path))}'.")
    check_regular(path)
    start = sample(path)
    for magic, what in NOT_TABLES.items():
        if start.startswith(magic):
            raise InputError(f"{path} is {what.format(path=path)}.")
    if not start.strip():
        raise InputError(f"{path} is empty. It needs a row for each event.")
    if start.startswith(b"PAR1"):
        return ParquetTable(path)
    if wide := _wide_encoding(start, reading.encoding):
        raise not_in_encoding(str(path), reading.encoding, remedy=f"Give --encoding {wide}")
    reading = replace(reading, encoding=encoding_of(path, reading.encoding))
    return _make(path, reading, reading.format or _format_of(path, reading))


def _wide_encoding(start: bytes, given: str) -> str | None:
    """Return the encoding of text with two bytes per character that is read as UTF-8."""
    if codecs.lookup(given).name != "utf-8":
        return None
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    nulls = start[::2].count(0), start[1::2].count(0)
    if max(nulls) <= len(start) / 4 or min(nulls) > len(start) / 8:
        return None
    return "utf-16-le" if nulls[1] > nulls[0] else "utf-16-be"


def _format_of(path: Path, reading: ReadOptions) -> str:
    text = decoded_sample(path, reading.encoding)
    first_line = text.lstrip().split("\n", 1)[0]
    if first_line.startswith("{"):
        return "json" if _is_json(first_line) else "literals"
    if first_line.startswith("["):
        raise InputError(f"{path} is one JSON list. Write one record per line instead.")
    words = [line.split() for line in text.splitlines() if line.strip()]
    if not words:
        raise InputError(f"{path} is empty. It needs a row for each event.")
    if separator_of(text) or len(words[0]) == 1:
        return "delimited"
    return "delimited" if _blank_separated_table(words) else "sequences"


def _blank_separated_table(words: list[list[str]]) -> bool:
    """Return whether lines are rows of columns: they have known names, or one is a time."""
    if {"user", "item"} <= guess_roles(words[0][:MOST_COLUMNS]).keys():
        return True
    if len({len(row) for row in words}) > 1 or len(words[0]) not in (3, 4):
        return False
    columns = list(zip(*words, strict=True))
    timed = [all(map(like_time, column)) for column in columns]
    return sum(timed) == 1 and any(timed[2:])


def _make(path: Path, reading: ReadOptions, kind: str) -> Tabular:
    match kind:
        case "parquet":
            return ParquetTable(path)
        case "sequences":
            return SequenceFile(path, reading)
        case "json":
            return RecordFile(path, reading, parse_json)
        case "literals":
            return RecordFile(path, reading, parse_literal)
    text = decoded_sample(path, reading.encoding)
    alone = "," if all(len(row) == 1 for row in split_rows(text, " ")) else " "
    return DelimitedFile(path, reading, separator_of(text) or alone)


def _is_json(line: str) -> bool:
    try:
        parse_json(line)
    except UNREADABLE:
        return False
    return True
