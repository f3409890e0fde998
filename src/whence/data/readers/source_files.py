"""Opening files, compressed or not, and clear errors when that fails."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from whence.errors import InputError
from whence.files import reason

MAGIC_BYTES = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""The first bytes of a compressed file."""
LEAST_BLOCK, MOST_BLOCK = 1 << 18, 1 << 23
SAMPLE, LONGEST_LINE = 1 << 16, 1 << 24
ANY_ENCODING = "Give --encoding cp1252 or latin-1, or save it as UTF-8"
UTF_8_ONLY = "Save it as UTF-8"
"""The remedy for files whose encoding cannot be given."""


def open_bytes(path: Path) -> pa.NativeFile:
    """Open a file for reading bytes, decompressed if need be."""
    return pa.input_stream(str(path), compression=compression_of(path))


def compression_of(path: Path) -> str | None:
    """Return the compression of a file, by its first bytes."""
    with path.open("rb") as file:
        start = file.read(4)
    return next((name for magic, name in MAGIC_BYTES.items() if start.startswith(magic)), None)


def block_size(path: Path) -> int:
    """Return the bytes to parse at once, so that small files too have blocks for each thread."""
    return min(max(path.stat().st_size // 8, LEAST_BLOCK), MOST_BLOCK)


def sample(path: Path) -> bytes:
    """Return the first bytes of the content, cut at the end of a line."""
    with clear_read_errors(str(path)), open_bytes(path) as file:
        start: bytes = file.read(SAMPLE)
        while len(start) < LONGEST_LINE and b"\n" not in start and (more := file.read(SAMPLE)):
            start += more
    if len(start) >= SAMPLE and b"\n" in start:
        start = start[: start.rindex(b"\n")]
    return start


def encoding_of(path: Path, given: str) -> str:
    """Return UTF-8 if the content is valid UTF-8, else the given encoding.

    So files of both encodings can be read together. Text in another encoding is hardly ever valid
    UTF-8.
    """
    if codecs.lookup(given).name.startswith("utf"):
        return given
    decoder = codecs.getincrementaldecoder("utf-8")()
    with clear_read_errors(str(path)), open_bytes(path) as file:
        try:
            while block := file.read(SAMPLE):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return given
    return "utf-8"


@contextmanager
def clear_read_errors(place: str) -> Iterator[None]:
    """Turn errors of the system while reading into an `InputError`."""
    try:
        yield
    except OSError as problem:
        why = reason(problem)
        if "compressed stream" in why or "inflate" in why or "ZSTD" in why:
            why = f"its compressed content is damaged or incomplete ({why}). Copy it again"
        raise InputError(f"{place} cannot be read: {why}.") from None


def not_in_encoding(
    place: str, encoding: str, row: int | None = None, remedy: str = ANY_ENCODING
) -> InputError:
    """Return the error for bytes that are invalid in the encoding."""
    where = f"{place}, row {row}," if row else place
    return InputError(f"{where} is not valid {encoding}. {remedy}.")
