"""Files opened whatever they are packed with, and what to say when they cannot be."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from whence.errors import InputError
from whence.files import reason

PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""How a packed file begins."""
LEAST_BLOCK, MOST_BLOCK = 1 << 18, 1 << 23
SAMPLE, LONGEST_LINE = 1 << 16, 1 << 24
ANY_ENCODING = "say --encoding cp1252 or latin-1, or save it as UTF-8"
UTF_8_ALONE = "save it as UTF-8"
"""What to do with other files where no encoding can be told."""


def open_bytes(path: Path) -> pa.NativeFile:
    """The file's content as bytes, unpacked on the way if it is packed."""
    return pa.input_stream(str(path), compression=compression_of(path))


def compression_of(path: Path) -> str | None:
    """What with, if it is."""
    with path.open("rb") as file:
        start = file.read(4)
    return next((name for magic, name in PACKED.items() if start.startswith(magic)), None)


def block_size(path: Path) -> int:
    """Bytes to take at once: some blocks for every thread also of a small file."""
    return min(max(path.stat().st_size // 8, LEAST_BLOCK), MOST_BLOCK)


def sample(path: Path) -> bytes:
    """The first bytes of the content, whole lines where there are several."""
    with clear_read_errors(str(path)), open_bytes(path) as file:
        start: bytes = file.read(SAMPLE)
        while len(start) < LONGEST_LINE and b"\n" not in start and (more := file.read(SAMPLE)):
            start += more
    if len(start) >= SAMPLE and b"\n" in start:
        start = start[: start.rindex(b"\n")]
    return start


def encoding_of(path: Path, told: str) -> str:
    """UTF-8 where the content is that, else what was told: files of both kinds go together.

    Text in another encoding is hardly ever UTF-8 by accident.
    """
    if codecs.lookup(told).name.startswith("utf"):
        return told
    decoder = codecs.getincrementaldecoder("utf-8")()
    with clear_read_errors(str(path)), open_bytes(path) as file:
        try:
            while block := file.read(SAMPLE):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return told
    return "utf-8"


@contextmanager
def clear_read_errors(place: str) -> Iterator[None]:
    """What the system says against reading, as one sentence."""
    try:
        yield
    except OSError as problem:
        why = reason(problem)
        if "compressed stream" in why or "inflate" in why or "ZSTD" in why:
            why = f"its compressed content is damaged or ends too early ({why}); copy it again"
        raise InputError(f"{place} cannot be read: {why}.") from None


def not_in_encoding(
    place: str, encoding: str, row: int | None = None, remedy: str = ANY_ENCODING
) -> InputError:
    """For bytes that mean nothing in the encoding."""
    where = f"{place}, row {row}," if row else place
    return InputError(f"{where} is not written in {encoding}; {remedy}.")
