"""Zip archives from strangers: only the files we know, and no more bytes than they may have."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whence.data import archives
from whence.data.archives import unpack
from whence.errors import InputError

NAME = "data/a.txt"
LIMIT = 100_000


def archive(*files: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about names that occur twice
        with zipfile.ZipFile(buffer, "w", method) as packed:
            for name, content in files:
                packed.writestr(name, content)
    return buffer.getvalue()


def with_size(content: bytes, size: int) -> bytes:
    """Return an archive of one file that states another size in both of its headers."""
    changed = bytearray(content)
    central = content.rindex(b"PK\1\2")
    struct.pack_into("<I", changed, central + 24, size)
    struct.pack_into("<I", changed, 22, size)
    return bytes(changed)


def with_flag(content: bytes, flag: int) -> bytes:
    changed = bytearray(content)
    central = content.rindex(b"PK\1\2")
    changed[central + 8] |= flag
    changed[6] |= flag
    return bytes(changed)


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


BOMB = archive((NAME, bytes(50_000_000)))
ONE = archive((NAME, b"x" * 500))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a zip", "not a zip file"),
        (archive(("b.txt", b"x")), "no item named 'data/a.txt'"),
        (BOMB, "its files have 50,000,000 bytes, more than 100,000"),
        (with_size(BOMB, 1_000), "Bad CRC-32"),
        (with_size(ONE, 50_000), "has fewer bytes than it states"),
        (with_size(ONE, 0xFFFFFFFF), "4,294,967,295 bytes, more than 100,000"),
        (archive((NAME, b"x"), (NAME, b"y")), "'data/a.txt' is there 2 times"),
        (with_flag(ONE, 1), "'data/a.txt' is encrypted"),
        (archive((NAME, b"x"), method=zipfile.ZIP_LZMA), "compressed by an unusual method"),
        (archive((NAME, b"x"), method=zipfile.ZIP_BZIP2), "compressed by an unusual method"),
        (ONE[:42] + bytes([ONE[42] ^ 64]) + ONE[43:], "Bad CRC-32|decompressing|fewer bytes"),
    ],
    ids=[
        *("garbage", "absent", "bomb", "bomb that lies", "more stated", "zip64 lie"),
        *("twice", "encrypted", "lzma", "bzip2", "damaged"),
    ],
)
def test_what_is_not_expected_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(InputError, match=rf"not the expected archive \(.*({message}).*Remove it"):
        unpack(tmp_path / "a.zip", [NAME], tmp_path, LIMIT)
    assert files_in(tmp_path) == {"a.zip"}


def test_only_the_named_files_are_unpacked(tmp_path: Path) -> None:
    content = archive((NAME, b"x"), ("../outside.txt", b"no"), ("/absolute.txt", b"no"))
    (tmp_path / "a.zip").write_bytes(content)
    unpack(tmp_path / "a.zip", [NAME], tmp_path / "into", LIMIT)
    assert (tmp_path / "into" / NAME).read_bytes() == b"x"
    assert files_in(tmp_path) == {"a.zip", "a.txt"}


@pytest.mark.parametrize("name", ["../outside.txt", "/absolute.txt", "data/../../outside.txt"])
def test_no_name_leads_outside(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(archive((name, b"x")))
    with pytest.raises(InputError, match="is not a name to unpack"):
        unpack(tmp_path / "a.zip", [name], tmp_path / "into", LIMIT)
    assert files_in(tmp_path) == {"a.zip"}


def test_the_limit_is_for_all_files_together(tmp_path: Path) -> None:
    names = [f"{number}.txt" for number in range(3)]
    (tmp_path / "a.zip").write_bytes(archive(*((name, bytes(40_000)) for name in names)))
    with pytest.raises(InputError, match="its files have 120,000 bytes, more than 100,000"):
        unpack(tmp_path / "a.zip", names, tmp_path, LIMIT)
    assert files_in(tmp_path) == {"a.zip"}
    unpack(tmp_path / "a.zip", names[:2], tmp_path, LIMIT)
    assert files_in(tmp_path) == {"a.zip", *names[:2]}


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep this")
    (tmp_path / "a.zip").write_bytes(archive(("a.txt", b"x")))
    (tmp_path / "a.txt").symlink_to(tmp_path / "mine.txt")
    with pytest.raises(InputError, match="is a link, so it is not overwritten"):
        unpack(tmp_path / "a.zip", ["a.txt"], tmp_path, LIMIT)
    assert (tmp_path / "mine.txt").read_text() == "keep this"


def test_too_little_room_is_noticed_before(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has room for .* bytes, but"):
        archives.check_space(tmp_path, 10**18)


def test_an_archive_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        unpack(tmp_path, [NAME], tmp_path, LIMIT)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, len(ONE) - 1), st.integers(0, 255)), min_size=1, max_size=6),
    st.integers(0, 40),
)
def test_no_damage_gives_a_traceback(
    tmp_path: Path, changes: list[tuple[int, int]], cut: int
) -> None:
    content = bytearray(ONE)
    for place, value in changes:
        content[place] = value
    (tmp_path / "a.zip").write_bytes(content[: len(content) - cut])
    try:
        unpack(tmp_path / "a.zip", [NAME], tmp_path, LIMIT)
    except InputError:
        return
    assert len((tmp_path / NAME).read_bytes()) <= LIMIT
