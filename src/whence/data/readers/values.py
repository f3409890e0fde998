"""The values of a column as ids, times or numbers, or an error that names the row."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from whence.data.interactions import Times, unified
from whence.data.readers.dates import EARLIEST, SHOWN, is_number
from whence.errors import InputError
from whence.text import shortened

A_TIME = "seconds or a date such as 2026-01-31 or 2026-01-31 18:30:00"
TIME_TYPES = (
    pa.int64(),
    pa.float64(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns"),
    pa.timestamp("ns", "UTC"),
)
ZONE = r"\d(Z|[-+]\d\d(:?\d\d)?)$"
DAY_LENGTH = len("2026-01-31")
PLAIN_NUMBER = r"^-?(0|[1-9]\d{0,15})(\.\d+)?$"
MICRO = 10**6
EXACT = 2.0**53
"""Integers below this are exact as floats."""
LARGEST = float(np.finfo(np.float32).max)
LATEST = 2.0**62
UNITS = ((1e17, 10**9), (1e14, 10**6), (1e11, 10**3))
"""From these sizes on, times count fractions of a second: 10¹¹ s is 5138, 10¹¹ ms is 1973."""
PER_SECOND_OF = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class SourceColumn:
    """A column of values, and how to name its rows in errors."""

    place: str
    name: str
    values: pa.ChunkedArray
    first_row: int

    def ids(self) -> pa.ChunkedArray:
        """Return texts or integers, dictionary-encoded.

        Texts become integers if all are written as integers. Other types become texts.
        """
        values = self._plain()
        self._refuse_gaps(values)
        if pa.types.is_dictionary(values.type):
            return self._integers_if_all_are(unified(values))
        if pa.types.is_floating(values.type):
            whole = self._finite(values, "an id")
            if (whole == np.floor(whole)).all() and np.abs(whole).max(initial=0) < EXACT:
                values = values.cast(pa.int64())
        if pa.types.is_integer(values.type):
            return values.dictionary_encode()
        try:
            texts = values.cast(pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise self.error(0, f"values of type {values.type} cannot be ids") from None
        encoded = texts.dictionary_encode()
        self._refuse_empty(encoded)
        return encoded

    def _integers_if_all_are(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the ids of a text file: 7 is an integer, and one 007 makes all of them texts."""
        self._refuse_empty(values)
        texts = values.chunk(0).dictionary if values.num_chunks else pa.array([], pa.string())
        try:
            numbers = texts.cast(pa.int64())
        except pa.ArrowInvalid:
            return values
        if not pc.all(pc.equal(numbers.cast(pa.string()), texts)).as_py():
            return values
        return pa.chunked_array(
            [pa.DictionaryArray.from_arrays(chunk.indices, numbers) for chunk in values.chunks],
            pa.dictionary(pa.int32(), pa.int64()),
        )

    def texts(self) -> pa.ChunkedArray:
        """Return texts, of which some may be null."""
        values = self._plain()
        if pa.types.is_dictionary(values.type):
            return values
        try:
            return values.cast(pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise self.error(0, f"values of type {values.type} cannot be texts") from None

    def feature(self) -> pa.ChunkedArray:
        """Return numbers if all are plain numbers; so the postcode 02139 stays a text."""
        if not pa.types.is_dictionary(self.values.type):
            return self._plain()
        texts = self.values.cast(pa.string())
        if not pc.all(pc.match_substring_regex(texts, PLAIN_NUMBER)).as_py():
            return texts
        try:
            return texts.cast(pa.int64())
        except pa.ArrowInvalid:
            return texts.cast(pa.float64())

    def times(self) -> Times:
        """Return times from dates, or from seconds, milli-, micro- or nanoseconds."""
        values = self._plain()
        self._refuse_gaps(values)
        if pa.types.is_string(values.type):
            values = self._parsed_times(values)
        if pa.types.is_date(values.type):
            values = values.cast(pa.timestamp("s"))
        if pa.types.is_timestamp(values.type):
            return Times(values.cast(pa.int64()).to_numpy(), PER_SECOND_OF[values.type.unit])
        return self._numeric_times(values)

    def _numeric_times(self, values: pa.ChunkedArray) -> Times:
        numbers = self._finite(values, A_TIME)
        size = max(float(numbers.max()), -float(numbers.min()))
        if size >= LATEST:
            row = int(numbers.argmax() if numbers.max() >= LATEST else numbers.argmin())
            raise self.error(row, f"{numbers[row]} is not a time")
        least, per_second = next((one for one in UNITS if size >= one[0]), (0.0, 1))
        self._refuse_two_units(numbers, least)
        if np.issubdtype(numbers.dtype, np.integer):
            return Times(numbers.astype(np.int64, copy=False), per_second)
        return Times(np.round(numbers * (MICRO / per_second)).astype(np.int64), MICRO)

    def _refuse_two_units(self, numbers: npt.NDArray[Any], least: float) -> None:
        """Raise if seconds and milliseconds are mixed, which would be misread."""
        large = np.abs(numbers) >= least
        small = ~large & (np.abs(numbers) >= EARLIEST)
        if large.all() or not least or (large.sum() > len(numbers) / 2 and not small.any()):
            return
        odd = small if large.sum() > len(numbers) / 2 else large
        row = int(np.argmax(odd))
        raise self.error(row, f"{numbers[row]} is in another unit of time than most other values")

    def _parsed_times(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return texts as the first type that fits all, or raise an error that names the row."""
        for kind in TIME_TYPES:
            if _fits(texts, kind):
                return texts.cast(kind)
        dates = _with_zones(texts)
        for unit in ("us", "ns"):
            if _fits(dates, pa.timestamp(unit, "UTC")):
                return dates.cast(pa.timestamp(unit, "UTC"))
        # The form that reads the most rows is meant, and its first failure is the error.
        row, is_date = max(
            (_first_misfit(texts, pa.int64()), False),
            (_first_misfit(texts, pa.float64()), False),
            (_first_misfit(dates, pa.timestamp("us", "UTC")), True),
            (_first_misfit(dates, pa.timestamp("ns", "UTC")), True),
            key=itemgetter(0),
        )
        like = f"a time like '{_shown(texts[0])}'" if row and is_date else A_TIME
        raise self.error(row, f"'{_shown(texts[row])}' is not {like}")

    def numbers(self) -> npt.NDArray[np.float32]:
        """Return finite numbers."""
        values = self._plain()
        self._refuse_gaps(values)
        if pa.types.is_string(values.type):
            if not _fits(values, pa.float64()):
                row = _first_misfit(values, pa.float64())
                wrong = _shown(values[row])
                raise self.error(row, f"'{wrong}' is not a number{_hint(wrong)}")
            values = values.cast(pa.float64())
        numbers = self._finite(values, "a number")
        beyond = np.abs(numbers) > LARGEST
        if beyond.any():
            row = int(np.argmax(beyond))
            raise self.error(row, f"{numbers[row]} is too large")
        return numbers.astype(np.float32)

    def _finite(self, values: pa.ChunkedArray, expected: str) -> npt.NDArray[Any]:
        """Return integers as they are, and other numbers as float64."""
        if pa.types.is_boolean(values.type) or pa.types.is_decimal(values.type):
            values = values.cast(pa.float64() if pa.types.is_decimal(values.type) else pa.int8())
        if pa.types.is_integer(values.type):
            return np.asarray(values.to_numpy())
        if not pa.types.is_floating(values.type):
            shown = _shown(values[0]) if len(values) else values.type
            raise self.error(0, f"'{shown}' is not {expected}")
        numbers = np.asarray(values.to_numpy(), dtype=np.float64)
        finite = np.isfinite(numbers)
        if not finite.all():
            row = int(np.argmin(finite))
            raise self.error(row, f"{numbers[row]} is not a finite number")
        return numbers

    def _plain(self) -> pa.ChunkedArray:
        """Return the values, with texts in the usual type of Arrow."""
        kind = self.values.type
        texts = (pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
        return self.values.cast(pa.string()) if any(is_it(kind) for is_it in texts) else self.values

    def _refuse_gaps(self, values: pa.ChunkedArray) -> None:
        if values.null_count:
            raise self.error(pc.index(values.is_null(), True).as_py(), "the value is missing")

    def _refuse_empty(self, encoded: pa.ChunkedArray) -> None:
        """Raise if an id is empty or blank."""
        row = 0
        for chunk in encoded.chunks:
            empty = pc.equal(pc.utf8_trim_whitespace(chunk.dictionary), "")
            if pc.any(empty).as_py():
                at = pc.index(empty.take(chunk.indices), True).as_py()
                if at >= 0:
                    raise self.error(row + at, "the value is missing")
            row += len(chunk)

    def error(self, row: int, problem: str) -> InputError:
        """Return an error that names the row as a person counts it."""
        return InputError(
            f"{self.place}, row {row + self.first_row}, column '{shortened(self.name, SHOWN)}': "
            f"{problem}. Correct that value."
        )


def _first_misfit(texts: pa.ChunkedArray, kind: pa.DataType) -> int:
    """Return the first row that does not fit this type, by bisection."""
    first, last = 0, len(texts) - 1
    while first < last:
        middle = (first + last) // 2
        if _fits(texts[first : middle + 1], kind):
            first = middle + 1
        else:
            last = middle
    return first


def _fits(texts: pa.ChunkedArray, kind: pa.DataType) -> bool:
    try:
        texts.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _with_zones(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dates in UTC where they name no zone, so that one type reads all ISO forms."""
    zoned = pc.match_substring_regex(texts, ZONE)
    days = pc.equal(pc.binary_length(texts), DAY_LENGTH)
    rest = pc.if_else(days, "T00:00Z", pc.if_else(zoned, "", "Z"))
    return pc.binary_join_element_wise(texts, rest, "")


def _shown(value: pa.Scalar) -> str:
    """Return a value as messages repeat it."""
    return shortened(str(value), SHOWN)


def _hint(text: str) -> str:
    """Return a hint for a number with a decimal comma."""
    number = text.replace(",", ".")
    return f" (write {number})" if number != text and is_number(number) else ""
