"""Files opened whatever they are packed with, and what to say when they cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from whence.errors import InputError
from whence.files import reason

PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""How a packed file begins."""
SAMPLE, LONGEST_LINE = 1 << 16, 1 << 24


def open_bytes(path: Path) -> pa.NativeFile:
    """The file's content as bytes, unpacked on the way if it is packed."""
    with path.open("rb") as file:
        start = file.read(4)
    packed = next((name for magic, name in PACKED.items() if start.startswith(magic)), None)
    return pa.input_stream(str(path), compression=packed)


def sample(path: Path) -> bytes:
    """The first bytes of the content, whole lines where there are several."""
    with reading_from(str(path)), open_bytes(path) as file:
        start: bytes = file.read(SAMPLE)
        while len(start) < LONGEST_LINE and b"\n" not in start and (more := file.read(SAMPLE)):
            start += more
    if len(start) >= SAMPLE and b"\n" in start:
        start = start[: start.rindex(b"\n")]
    return start


@contextmanager
def reading_from(place: str) -> Iterator[None]:
    """What the system says against reading, as one sentence."""
    try:
        yield
    except OSError as problem:
        why = reason(problem)
        if "compressed stream" in why or "inflate" in why or "ZSTD" in why:
            why = f"its compressed content is damaged or ends too early ({why}); copy it again"
        raise InputError(f"{place} cannot be read: {why}.") from None


def not_in_encoding(place: str, encoding: str, row: int | None = None) -> InputError:
    """For bytes that mean nothing in the encoding."""
    where = f"{place}, row {row}," if row else place
    return InputError(
        f"{where} is not written in {encoding}; say --encoding latin-1, or save it as UTF-8."
    )
