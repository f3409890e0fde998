"""Opening files, compressed or not, and clear errors when that fails."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from whence.errors import InputError
from whence.files import reason
from whence.memory import free_memory
from whence.reading import check_regular

MAGIC_BYTES = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""The first bytes of a compressed file."""
LEAST_BLOCK, MOST_BLOCK = 1 << 18, 1 << 23
SAMPLE, LONGEST_LINE = 1 << 16, 1 << 24
LARGEST_GROWTH, ALWAYS_ALLOWED = 100, 1 << 30
"""How many times its size a compressed file may grow to, and the bytes that any may grow to."""
ANY_ENCODING = "Give --encoding cp1252 or latin-1, or save it as UTF-8"
OUT_OF_MEMORY = (MemoryError, pa.ArrowCapacityError)
UTF_8_ONLY = "Save it as UTF-8"
"""The remedy for files whose encoding cannot be given."""


def open_bytes(path: Path) -> pa.NativeFile:
    """Open a regular file for reading bytes, decompressed if need be."""
    compression = compression_of(path)
    content = pa.input_stream(str(path), compression=compression)
    if compression is None:
        return content
    return pa.PythonFile(_Decompressed(content, path), mode="r")


def read_all(path: Path) -> bytes:
    """Return the whole content of a file, decompressed if need be."""
    with open_bytes(path) as file:
        return b"".join(iter(lambda: file.read(MOST_BLOCK), b""))


class _Decompressed:
    """Content that raises an error if it grows beyond what a sane file and the memory hold."""

    def __init__(self, content: pa.NativeFile, path: Path) -> None:
        self.content, self.path, self.size = content, path, 0
        sane = max(ALWAYS_ALLOWED, LARGEST_GROWTH * path.stat().st_size)
        self.largest = min(sane, free_memory())

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        block: bytes = self.content.read(size)
        self.size += len(block)
        if self.size > self.largest:
            raise InputError(
                f"{self.path} holds more than {self.largest / 2**30:.1f} GB when decompressed. If "
                "that is right, decompress it first."
            )
        return block

    @property
    def closed(self) -> bool:
        """Whether the content is closed."""
        return bool(self.content.closed)

    def close(self) -> None:
        """Close the content."""
        self.content.close()


def compression_of(path: Path) -> str | None:
    """Return the compression of a regular file, by its first bytes."""
    check_regular(path)
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
    """Turn errors of the system and of the memory while reading into an `InputError`."""
    try:
        yield
    except OUT_OF_MEMORY:
        raise InputError(
            f"{place} needs more memory than there is. Split it, or use a larger machine."
        ) from None
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
