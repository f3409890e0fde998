"""Whether the quotes in a delimited file are quotes.

A quote that opens a value and is not closed swallows rows in silence, so no file is read with
quotes before they were looked at. Quotes side by side are a run: even runs are quotes inside a
value, or an empty value, and odd runs open and close values in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from whence.data.readers.opening import MOST_BLOCK, open_bytes, reading_from
from whence.errors import InputError

QUOTE, LINE_END = b'"', b"\n"


def has_quotes(path: Path, separator: str) -> bool:
    """Whether values are quoted; a file in which some are, and not rightly, is refused.

    Quotes inside values that are not quoted, as in 5" disc, are letters like any other. Values
    separated by tabs may begin with such a letter, for they are seldom quoted at all.
    """
    found = _Quotes(separator)
    with reading_from(str(path)), open_bytes(path) as file:
        for block in _blocks(file):
            found.look_at(block)
    if found.wrong_line is None and found.inside:
        found.wrong_line = found.opened_line
    if found.wrong_line is None or separator == "\t" or not found.any_opens:
        return found.any_opens and found.wrong_line is None
    raise InputError(
        f'{path}, row {found.wrong_line + 1}: a quote (") is not closed at the end of its value; '
        "double quotes inside values, or leave them out."
    )


@dataclass
class _Quotes:
    """What was seen of a file's quotes so far."""

    separator: str
    inside: bool = False
    any_opens: bool = False
    lines: int = 0
    opened_line: int = 0
    wrong_line: int | None = None
    before: bytes = LINE_END

    def look_at(self, block: bytes) -> None:
        """Go on with a block that does not end within a run of quotes."""
        if QUOTE in block:
            self._runs(np.frombuffer(self.before + block + LINE_END, dtype=np.uint8))
        self.lines += block.count(LINE_END)
        self.before = block[-1:]

    def _runs(self, content: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        """Of the odd runs, the first, third, … must begin a value, and the others end one."""
        quote = content == ord(QUOTE)
        first = np.flatnonzero(quote[1:] & ~quote[:-1]) + 1
        last = np.flatnonzero(quote[:-1] & ~quote[1:])
        edges = [ord(one) for one in (self.separator, "\n", "\r")]
        opens, closes = np.isin(content[first - 1], edges), np.isin(content[last + 1], edges)
        self.any_opens |= bool(opens.any())
        odd = (last - first) % 2 == 0
        first, opens, closes = first[odd], opens[odd], closes[odd]
        opening = (np.arange(len(first)) + self.inside) % 2 == 0
        wrong = np.flatnonzero(np.where(opening, ~opens, ~closes))
        if self.wrong_line is None and len(wrong):
            at = int(wrong[0])
            begun = at if opening[at] else at - 1
            self.wrong_line = self.opened_line if begun < 0 else self._line(content, first[begun])
        if len(first):
            self.inside = bool((len(first) + self.inside) % 2)
            if self.inside:
                self.opened_line = self._line(content, first[-1])

    def _line(self, content: np.ndarray[tuple[int], np.dtype[np.uint8]], place: int) -> int:
        return self.lines + int(np.count_nonzero(content[1:place] == ord(LINE_END)))


def _blocks(file: pa.NativeFile) -> Iterator[bytes]:
    """Blocks that end in something else than a quote, but for the last."""
    while block := file.read(MOST_BLOCK):
        while block.endswith(QUOTE) and (more := file.read(1)):
            block += more
        yield block
