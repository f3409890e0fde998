"""Folders and files that are there whole or not at all."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from whence.errors import InputError


def save_weights(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write them; a full disk raises as it does for every other file."""
    apart = {name: value.detach().contiguous().clone() for name, value in tensors.items()}
    try:
        save_file(apart, path, metadata=dict(metadata or {}))
    except SafetensorError as problem:
        said = re.search(r"([^:]*) \(os error \d+\)", str(problem))
        raise OSError(said[1].strip() if said else str(problem)) from None


# ...


MANIFEST = "manifest.json"
"""Every folder that Whence writes has one."""


def check_can_write(folder: Path, overwrite: bool) -> None:
    """Raise if something stands in the way; only what Whence wrote may be overwritten."""
    if not folder.exists():
        return
    if not overwrite:
        raise InputError(
            f"{folder} is there already; name another folder, or overwrite it with --overwrite "
            "(in Python overwrite=True)."
        )
    if not (folder / MANIFEST).is_file():
        raise InputError(f"{folder} is not a folder of Whence's, so it is not overwritten.")


@contextmanager
def new_folder(folder: Path, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder beside `folder`, renamed to it when the block ends well.

    On any failure, a full disk or Ctrl-C included, what was there before is there again.
    """
    folder = folder.resolve()
    _tidy(folder)
    check_can_write(folder, overwrite)
    partial, former = _beside(folder, "partial"), _beside(folder, "former")
    with _writing(folder):
        try:
            partial.mkdir(parents=True)
            yield partial
            if folder.exists():
                folder.rename(former)
            partial.rename(folder)
        finally:
            if former.exists() and not folder.exists():
                former.rename(folder)
            shutil.rmtree(former, ignore_errors=True)
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A temporary file beside `path`, renamed to it when the block ends well."""
    path = path.resolve()
    _tidy(path)
    partial = _beside(path, "partial")
    with _writing(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield partial
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def make_parent(path: Path) -> None:
    """The folder that `path` will be written into, so that long work does not fail at its end."""
    with _writing(path):
        path.resolve().parent.mkdir(parents=True, exist_ok=True)


def write_json(path: Path, document: object) -> None:
    """JSON with a final newline."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def write_array(path: Path, array: npt.NDArray[Any]) -> None:
    """A `.npy` file; unlike `np.save`, with an error when a small array finds the disk full."""
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, or one sentence."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {reason(problem)}.") from None
    except ValueError as problem:
        raise InputError(f"{path} cannot be read as JSON: {problem}.") from None
    if not isinstance(document, dict):
        raise InputError(f"{path} does not hold a JSON object.")
    return document


def sha256(path: Path) -> str:
    """The file's checksum."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def reason(problem: OSError) -> str:
    """What the system said, out of what Arrow made of it."""
    said = problem.strerror or str(problem)
    return said.rpartition("] ")[2].rstrip(".")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """What the system says against writing, as one sentence."""
    try:
        yield
    except OSError as problem:
        raise InputError(f"{path} cannot be written: {reason(problem)}.") from problem


def _tidy(path: Path) -> None:
    """Put right what a process left that was killed while it wrote here."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*-*"):
        kind, _, process = left.name.removeprefix(f".{path.name}.").partition("-")
        if kind not in ("partial", "former") or not process.isdecimal() or _alive(int(process)):
            continue
        if kind == "former" and not path.exists():
            left.rename(path)
        elif left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f".{path.name}.{what}-{os.getpid()}")
