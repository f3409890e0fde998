"""Which columns hold dates, judged by their names and first values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from whence.text import shortened

SHOWN = 80
"""How many characters of a value a message repeats."""
DATE = re.compile(r"\d{4}-\d\d-\d\d(?!\d)")
"""How a value in ISO 8601 starts; reading it checks the rest."""
NUMBER = re.compile(r"[ \t\r\n]*[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?[ \t\r\n]*")
MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
OTHER_DATE = re.compile(
    r"\s{0,3}([a-z]{3,9},?\s)?("
    r"(\d{1,2}|\d{4})\s?([./-])\s?\d{1,2}\s?\4\s?(\d{4}|\d{2})(?=$|[\sT,])"
    rf"|\d{{1,2}}(st|nd|rd|th|\.)?[\s-]{MONTH},?[\s-]\d{{2,4}}"
    rf"|{MONTH}\s\d{{1,2}}(st|nd|rd|th)?,?\s"
    r"|\d{8}T\d{4})",
    re.IGNORECASE,
)
"""How a date in another common form starts: 5/1/2024, 5.1.2024, Jan 5, 2024 or 5 Jan 2024."""
DATE_WORDS = {"date", "time", "timestamp", "datetime", "created", "ts"}
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
EARLIEST = 1e8
"""Numbers from this on are times (as seconds, 1973) and not ratings."""
FirstValues = Mapping[str, Sequence[str]]
"""The first values of each column as texts; a missing value is empty."""


def is_number(value: str) -> bool:
    """Return whether a text is written as a number."""
    return NUMBER.fullmatch(value) is not None


def is_iso_date(value: str) -> bool:
    """Return whether a text starts with a date in ISO 8601."""
    return DATE.match(value) is not None


def like_time(value: str) -> bool:
    """Return whether a value is a date, or a number too large for a rating."""
    return abs(float(value)) > EARLIEST if is_number(value) else is_iso_date(value)


def most(answers: Iterable[bool]) -> bool:
    """Return whether most are true; reading reports the others."""
    yes = list(answers)
    return sum(yes) > len(yes) / 2


def dated_columns(columns: FirstValues) -> list[str]:
    """Return the columns whose first values are all dates that can be read."""
    return [name for name, values in columns.items() if values and all(map(is_iso_date, values))]


def unused_dates(columns: FirstValues, first_row: int) -> str | None:
    """Return a note on the first column that seems to hold dates but is not read, if there is one.

    Its values decide, or its name if they are not small numbers.
    """
    for name, values in columns.items():
        known = [value for value in values if value.strip()]
        if not known or not (most(map(_like_date, known)) or _named_like_dates(name, known)):
            continue
        said = f"the column '{shortened(name, SHOWN)}' seems to hold dates"
        row = next((at for at, value in enumerate(values) if not like_time(value)), None)
        if row is None:
            return f"{said}, but its name is not a known one"
        value = shortened(values[row].strip(), SHOWN)
        wrong = f"'{value}' is not a date such as 2026-01-31" if value else "the value is missing"
        return f"{said}, but in row {first_row + row} {wrong}"
    return None


def _named_like_dates(name: str, known: Sequence[str]) -> bool:
    words = {word.lower() for word in WORD.findall(name)}
    return not words.isdisjoint(DATE_WORDS) and most(
        like_time(value) or not is_number(value) for value in known
    )


def _like_date(value: str) -> bool:
    return is_iso_date(value) or OTHER_DATE.match(value) is not None
