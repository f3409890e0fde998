"""Unpacking: the files we know, and no more bytes than they may have."""

from __future__ import annotations

import shutil
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from whence.errors import InputError
from whence.files import make_parent, new_file, reason

BLOCK = 1 << 18
ENCRYPTED = 0x1
KNOWN_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    LookupError,
    EOFError,
    RuntimeError,
    ValueError,
)
"""What reading a damaged zip archive raises."""


class _UnusableError(Exception):
    """Something in the archive that is not expected."""


def unpack(archive: Path, members: Sequence[str], into: Path, max_bytes: int) -> None:
    """Unpack these files of a zip archive, which may have `max_bytes` in all."""
    for member in members:
        _check_target(into, member)
    try:
        with zipfile.ZipFile(archive) as packed:
            found = [_member(packed, name) for name in members]
            _check_size(sum(one.file_size for one in found), max_bytes)
            check_space(into, sum(one.file_size for one in found))
            for one in found:
                with new_file(into / one.filename) as partial:
                    _copy(packed, one, partial)
    except (_UnusableError, *DAMAGED) as problem:
        raise InputError(
            f"{archive} is not the expected archive ({problem}). Remove it, and download it again."
        ) from None
    except OSError as problem:
        raise InputError(f"{archive} cannot be read: {reason(problem)}.") from None


def check_space(folder: Path, size: int) -> None:
    """Raise if the disk of a folder has no room for so many bytes."""
    make_parent(folder / "file")
    free = shutil.disk_usage(folder).free
    if size > free:
        raise InputError(
            f"{folder} has room for {free:,} bytes, but {size:,} are needed. Make room, or use "
            "another folder."
        )


def _check_target(into: Path, member: str) -> None:
    """Raise if a file would be written elsewhere than below `into`."""
    name = PurePosixPath(member)
    if name.is_absolute() or ".." in name.parts:
        raise InputError(f"'{member}' is not a name to unpack in {into}. Give a relative one.")
    if (into / member).is_symlink():
        raise InputError(f"{into / member} is a link, so it is not overwritten. Remove it.")


def _member(packed: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    count = packed.namelist().count(name)
    if count > 1:
        raise _UnusableError(f"'{name}' is there {count} times")
    found = packed.getinfo(name)
    if found.flag_bits & ENCRYPTED:
        raise _UnusableError(f"'{name}' is encrypted")
    if found.compress_type not in KNOWN_METHODS:
        raise _UnusableError(f"'{name}' is compressed by an unusual method")
    return found


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise _UnusableError(f"its files have {size:,} bytes, more than {limit:,}")


def _copy(packed: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> None:
    """Copy in blocks, because a stated size may be wrong."""
    written = 0
    with packed.open(member) as content, path.open("wb") as file:
        while block := content.read(BLOCK):
            written += len(block)
            _check_size(written, member.file_size)
            file.write(block)
    if written < member.file_size:
        raise _UnusableError(f"'{member.filename}' has fewer bytes than it states")
