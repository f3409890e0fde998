"""Files and folders that are written completely or not at all.

How a folder `run` is replaced: its files are written to `.run.whence-partial-TOKEN` and flushed to
the disk. The checksum of its manifest is noted in the lock file (`whence.locks`). The two folders
then swap their names in one step, and the old one is removed. Where the system cannot swap, the old
one is first renamed to `.run.whence-former-TOKEN`.

If the process is killed on the way, the next one that writes `run` removes what is hidden, and
gives a former folder its name back if there is no `run`. If the noted checksum is that of `run`,
the killed process had finished: the same work then ends with success, though `run` exists.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from whence.errors import InputError, OutputError
from whence.locks import Lock, abandoned, hidden_name, hold, lock, new_token
from whence.reading import read_text
from whence.text import json_text

MANIFEST = "manifest.json"
"""Every folder that Whence writes contains this file."""
PREPARED = {"items.npy", "offsets.npy", "times.npy", "ratings.npy", "catalog.parquet"} | {
    "users.parquet"
}
"""The files of a prepared folder, whose manifest does not list them."""
OF_FILE_MANAGERS = {".DS_Store", "Thumbs.db", "desktop.ini"}
"""Nobody misses these."""
LARGEST_JSON = 64 * 2**20
"""Bytes. No JSON file of Whence is nearly as large."""
LINUX = sys.platform == "linux"
TOKEN = re.compile(r"[0-9a-f]{16}")
FORMER = re.compile(r"former-[0-9]+")
"""The end of a name that versions 0.1 and 0.2 gave to a folder they were replacing."""


def save_weights(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors; a full disk raises `OSError`, as for every other file."""
    separate = {name: value.detach().contiguous().clone() for name, value in tensors.items()}
    try:
        save_file(separate, path, metadata=dict(metadata or {}))
    except SafetensorError as problem:
        said = str(problem).partition(" (os error ")[0].rpartition(":")[2]
        raise OSError(said.strip()) from None


def check_can_write(folder: Path, overwrite: bool) -> None:
    """Raise if the folder exists, unless Whence wrote all that is in it and it may be replaced."""
    if folder.is_symlink():
        raise InputError(
            f"{folder} is a symbolic link, which is not replaced. Name the folder that it points "
            "to, or remove the link."
        )
    if not folder.exists():
        return
    if not overwrite:
        raise InputError(
            f"{folder} already exists. Choose another folder, or give --overwrite (in Python "
            "overwrite=True)."
        )
    own = _own_files(folder)
    if own is None:
        raise InputError(
            f"{folder} was not written by Whence, so it is not overwritten. Choose another folder."
        )
    for name in _files_in(folder):
        if name not in own:
            raise InputError(
                f"{folder} is not overwritten, because Whence did not write {name} in it. Move "
                "that file elsewhere, or choose another folder."
            )


def refuse_links(folder: Path) -> None:
    """Raise if a folder is a link or holds one: what is written there would land elsewhere."""
    for path in (folder, *folder.rglob("*")):
        if path.is_symlink():
            raise InputError(f"{path} is a symbolic link, which is not followed. Remove it.")


def check_own_file(path: Path) -> None:
    """Raise if there is a page or a document that does not name Whence as its writer."""
    if not path.exists():
        return
    with writing(path):
        is_own = path.is_file() and b"whence" in path.read_bytes().lower()
    if not is_own:
        raise InputError(f"{path} was not written by Whence, so it is not replaced. Move it.")


@contextmanager
def claim_folder(folder: Path, overwrite: bool = False) -> Iterator[Lock]:
    """Keep others from writing a folder from before long work until it is written.

    Raise if it exists and may not be replaced. What a killed process left is tidied up. If that
    had finished the folder, `Lock.finished` is set instead.
    """
    if folder.is_symlink() or not folder.resolve().name:  # `/` has no name
        check_can_write(folder, overwrite)
    folder = folder.resolve()
    make_parent(folder)
    with ExitStack() as stack:
        with writing(folder):
            claim = stack.enter_context(lock(folder))
            _restore_former(folder)
            claim.finished = claim.left_result == _result(folder)
        check_can_write(folder, overwrite or claim.finished)
        yield claim


@contextmanager
def new_folder(folder: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `folder` if the block succeeds.

    After any failure, including a full disk and Ctrl-C, the former content is still there.
    """
    with claim_folder(folder, overwrite) as claim, writing(claim.path):
        partial = claim.hidden("partial")
        try:
            partial.mkdir()
            yield partial
            _flush_all(partial)
            if claim.finished and claim.left_result == _result(partial):
                claim.finished = False  # the very same is already there
            else:
                # Somebody may have written to it in the meantime.
                check_can_write(claim.path, overwrite)
                claim.record(result=_result(partial))
                _put_in_place(partial, claim)
        finally:
            claim.tidy()


@contextmanager
def new_file(path: Path, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path that is renamed to `path` if the block succeeds.

    If several do this at once, each writes a whole file and the last one stays. `durable` waits
    until the file is on the disk, so that it survives a power failure.
    """
    # A link is replaced, not followed: it may lead to anything.
    path = path.parent.resolve() / path.name
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise OutputError(f"{path} is not a file. Name another one.")
        _remove_left(path)
        partial = hidden_name(path, "partial", new_token())
        try:
            with hold(partial):
                yield partial
                if durable:
                    _flush(partial)
                partial.replace(path)
                if durable:
                    _flush(path.parent)
        finally:
            partial.unlink(missing_ok=True)


def make_parent(path: Path) -> None:
    """Create the folder of `path` before long work, so that it does not fail at the end."""
    with writing(path):
        path.resolve().parent.mkdir(parents=True, exist_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of the system while writing into an `OutputError`."""
    try:
        yield
    except OSError as problem:
        raise OutputError(f"{path} cannot be written: {reason(problem)}.") from problem


def write_json(path: Path, document: object) -> None:
    """Write JSON with a final newline."""
    path.write_text(json_text(document) + "\n", encoding="utf-8")


def write_array(path: Path, array: npt.NDArray[Any]) -> None:
    """Write a `.npy` file; unlike `np.save`, this raises if the disk is full."""
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object, or raise an `InputError`, whatever is at that path."""
    document = read_document(path)
    if not isinstance(document, dict):
        raise InputError(f"{path} does not hold a JSON object.")
    return document


def read_document(path: Path) -> object:
    """Return what a JSON file holds, or raise an `InputError`, whatever is at that path."""
    text = read_text(path, LARGEST_JSON)
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise InputError(f"{path} cannot be read as JSON: it is nested too deeply.") from None
    except ValueError as problem:
        raise InputError(f"{path} cannot be read as JSON: {problem}.") from None


def _refuse_constant(name: str) -> object:
    """Refuse NaN and infinity, which Python reads, but JSON does not have."""
    raise ValueError(f"{name} is not a number")


def sha256(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def reason(problem: OSError) -> str:
    """Return the message of the system, also from errors of Arrow."""
    said = problem.strerror or str(problem)
    return said.rpartition("] ")[2].rstrip(".")


def _own_files(folder: Path) -> set[str] | None:
    """Return the names of all files that Whence wrote to a folder, or nothing if it did not."""
    try:
        manifest = read_json(folder / MANIFEST)
    except InputError:
        return None
    sums, files = manifest.get("sha256"), manifest.get("files")
    counts = [manifest.get(name) for name in ("format", "users", "items", "events")]
    if isinstance(sums, dict) and "run.json" in sums and isinstance(counts[0], int):
        return {*sums, MANIFEST}
    if isinstance(manifest.get("hash"), str) and all(isinstance(one, int) for one in counts):
        return {*PREPARED, MANIFEST}
    if isinstance(manifest.get("whence"), str) and isinstance(files, list):
        return {*map(str, files), MANIFEST}
    return None


def _files_in(folder: Path) -> Iterator[str]:
    """Yield the relative paths of all files, but not of those that file managers leave."""

    def fail(problem: OSError) -> None:
        raise OutputError(f"{folder} cannot be overwritten: {reason(problem)}.")

    for place, folders, files in os.walk(folder, onerror=fail):
        links = [name for name in folders if Path(place, name).is_symlink()]
        for name in sorted({*files, *links} - OF_FILE_MANAGERS):
            yield Path(place, name).relative_to(folder).as_posix()


def _result(folder: Path) -> str:
    """Return what identifies a complete folder: the checksum of its manifest."""
    manifest = folder / MANIFEST
    return sha256(manifest) if manifest.is_file() else ""


def _put_in_place(partial: Path, claim: Lock) -> None:
    folder = claim.path
    if not folder.exists():
        partial.rename(folder)
    elif not _swap(partial, folder):
        folder.rename(claim.hidden("former"))
        partial.rename(folder)
    _flush(folder.parent)


def _swap(one: Path, other: Path) -> bool:
    """Swap two folders in one step, so that a reader always finds one; only Linux can."""
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    swap = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if LINUX else None
    return swap is not None and swap(here, bytes(one), here, bytes(other), exchange) == 0


def _restore_former(folder: Path) -> None:
    """Restore a folder that an older version was replacing when it was killed."""
    hidden = f".{folder.name}."
    for left in [] if folder.exists() else folder.parent.iterdir():
        is_former = FORMER.fullmatch(left.name.removeprefix(hidden))
        if left.name.startswith(hidden) and is_former and _own_files(left) is not None:
            left.rename(folder)
            return


def _remove_left(path: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote this file."""
    begin = hidden_name(path, "partial", "").name
    for left in path.parent.iterdir():
        is_ours = left.name.startswith(begin) and TOKEN.fullmatch(left.name.removeprefix(begin))
        if is_ours and left.is_file():
            with abandoned(left) as nobody_writes:
                if nobody_writes:
                    left.unlink(missing_ok=True)


def _flush_all(folder: Path) -> None:
    """Wait until all files and folders below, and then the folder itself, are on the disk."""
    for place, _, files in os.walk(folder, topdown=False):
        for name in files:
            _flush(Path(place, name))
        _flush(Path(place))


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    is_folder = path.is_dir()
    if is_folder and sys.platform == "win32":  # which cannot open one
        return
    file = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(file)
    except OSError as problem:
        if not is_folder or problem.errno != errno.EINVAL:  # some systems flush only files
            raise
    finally:
        os.close(file)
