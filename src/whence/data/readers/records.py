"""Files with one record per line: JSON, or Python literals as in the Steam reviews."""

from __future__ import annotations

import ast
import codecs
import json
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.json as pa_json

from whence.data.readers.column_builder import ROWS_AT_ONCE, ColumnBuilder
from whence.data.readers.dates import SHOWN
from whence.data.readers.source_files import (
    LONGEST_LINE,
    MOST_BLOCK,
    clear_read_errors,
    not_in_encoding,
    open_bytes,
    sample,
)
from whence.data.readers.tabular import FileTable, ReadOptions, guess_roles
from whence.errors import InputError
from whence.text import shortened

SAMPLED_RECORDS = 200
LONGEST_LITERAL = 1 << 20
"""Python's parser takes some hundred bytes of memory for each character."""
LineRecord = dict[str, Any]
TEXT = r"""[uU]?'[^'\\\n]*(?:\\.[^'\\\n]*)*'|[uU]?"[^"\\\n]*(?:\\.[^"\\\n]*)*\""""
NUMBER = r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,17})?"
PAIR = re.compile(rf"\s*({TEXT})\s*:\s*({TEXT}|{NUMBER}|True|False|None)\s*([,}}])")
CONSTANTS = {"True": True, "False": False, "None": None}
LineParser = Callable[[str, Collection[str] | None], object]
UNREADABLE = (ValueError, SyntaxError, TypeError, RecursionError, MemoryError)
"""What `json.loads` and `ast.literal_eval` raise for invalid text."""
ARROW_TYPES = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}


def parse_json(line: str, keys: Collection[str] | None = None) -> object:
    """Return one JSON value."""
    return json.loads(line)


def parse_literal(line: str, keys: Collection[str] | None = None) -> object:
    """Return one Python literal, or only some of its keys; nothing in it is executed.

    Plain records of texts and numbers are parsed here, several times faster than by `ast`, which
    parses all others.
    """
    record: LineRecord = {}
    line = line.strip()
    place = 1 if line.startswith("{") else len(line)
    while pair := PAIR.match(line, place):
        key = _plain_value(pair[1])
        if keys is None or key in keys:
            record[key] = _plain_value(pair[2])
        place = pair.end()
        if pair[3] == "}" and place == len(line):
            return record
    if len(line) > LONGEST_LITERAL:
        raise ValueError("too long to parse")
    value = _evaluated(line)
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        raise ValueError("the keys must be texts")
    return value


def _plain_value(token: str) -> Any:  # noqa: ANN401
    if token[-1] in "'\"":
        return _evaluated(token) if "\\" in token else token.lstrip("uU")[1:-1]
    if token in CONSTANTS:
        return CONSTANTS[token]
    return float(token) if "." in token else int(token)


def _evaluated(text: str) -> Any:  # noqa: ANN401
    """Return a literal, without Python's notes on how it is written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.literal_eval(text)


@dataclass(frozen=True)
class RecordFile(FileTable):
    """A file with one record per line, whose keys may differ."""

    reading: ReadOptions
    parse: LineParser

    def names(self) -> list[str]:
        """Return the keys of the first records."""
        return list(dict.fromkeys(key for record in self._first for key in record))

    def guesses(self) -> dict[str, str]:
        """Return role to key, among the keys that all of the first records have."""
        everywhere = [key for key in self.names() if all(key in record for record in self._first)]
        return guess_roles(everywhere)

    def first_values(self) -> dict[str, Sequence[str]]:
        """Return the values of the first records."""
        return {name: [_text(record.get(name)) for record in self._first] for name in self.names()}

    def read(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """Return these keys, parsed by Arrow if each has values of one type, else by line."""
        plain = self.parse is parse_json and codecs.lookup(self.reading.encoding).name == "utf-8"
        table = self._by_arrow(columns) if plain else None
        return self._by_line(columns, ids) if table is None else table

    def _by_arrow(self, columns: Sequence[str]) -> pa.Table | None:
        """Return None if the file must be parsed by line, which also finds errors."""
        kinds = {name: {type(record.get(name)) for record in self._first} for name in columns}
        if any(len(kind) > 1 or not kind <= ARROW_TYPES.keys() for kind in kinds.values()):
            return None
        schema = pa.schema([(name, ARROW_TYPES[kind.pop()]) for name, kind in kinds.items()])
        with clear_read_errors(self.place), open_bytes(self.path) as content:
            try:
                table = pa_json.read_json(
                    content,
                    pa_json.ReadOptions(block_size=MOST_BLOCK),
                    pa_json.ParseOptions(
                        explicit_schema=schema, unexpected_field_behavior="ignore"
                    ),
                )
                table.validate(full=True)  # Arrow accepts invalid bytes
            except pa.ArrowInvalid:
                return None
        return None if any(column.null_count for column in table.columns) else table

    def _by_line(self, columns: Sequence[str], ids: Collection[str]) -> pa.Table:
        """Parse line by line, which is slower and names the row of an error."""
        taken = {name: ColumnBuilder(self.place, name, name in ids) for name in columns}
        records = self._records(keys=columns)
        while rows := list(islice(records, ROWS_AT_ONCE)):
            for name, column in taken.items():
                column.append([record.get(name) for record in rows])
        return pa.table({name: column.joined() for name, column in taken.items()})

    @cached_property
    def _first(self) -> list[LineRecord]:
        first = list(islice(self._parsed(sample(self.path).splitlines()), SAMPLED_RECORDS))
        if not first:
            raise InputError(f"{self.path} is empty. It needs a record for each event.")
        for name in {key for record in first for key in record}:
            if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
                raise InputError(f"{self.path}: the key '{name}' is not valid text. Rename it.")
        return first

    def _records(self, keys: Collection[str]) -> Iterator[LineRecord]:
        """Yield all records, with at least these keys."""
        with clear_read_errors(self.place), open_bytes(self.path) as content:
            yield from self._parsed(_lines(content), frozenset(keys))

    def _parsed(
        self, lines: Iterable[bytes], keys: Collection[str] | None = None
    ) -> Iterator[LineRecord]:
        """Yield the records of the lines, or raise an error that names the first invalid row."""
        for row, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            if len(line) > LONGEST_LINE:
                raise InputError(
                    f"{self.path}, row {row} is longer than {LONGEST_LINE >> 20} MB. Write one "
                    "record per line."
                )
            record = self._record(line, row, keys)
            if not isinstance(record, dict):
                raise InputError(
                    f"{self.path}, row {row}: '{_quoted(line)}' is not a record such as "
                    '{"user": 1, "item": 2}. Correct that row.'
                )
            yield record

    def _record(self, line: bytes, row: int, keys: Collection[str] | None) -> object:
        try:
            return self.parse(line.decode(self.reading.encoding).lstrip("\ufeff"), keys)
        except UnicodeError:
            raise not_in_encoding(self.place, self.reading.encoding, row) from None
        except UNREADABLE:
            return None


def _lines(content: pa.NativeFile) -> Iterator[bytes]:
    """Yield whole lines from blocks; a line that is too long is cut, which makes it invalid."""
    rest = b""
    while block := content.read(MOST_BLOCK):
        *whole, rest = (rest[: LONGEST_LINE + 1] + block).split(b"\n")
        yield from whole
    if rest:
        yield rest


def _text(value: object) -> str:
    """Return a value as a column of texts has it; lists and records may be deep."""
    return "" if value is None or isinstance(value, dict | list | tuple | set) else str(value)


def _quoted(line: bytes) -> str:
    return shortened(line[: 4 * SHOWN].decode(errors="replace").strip(), SHOWN)
