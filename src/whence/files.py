"""Atomic writing of folders and files."""

from __future__ import annotations

import glob
import hashlib
import json
import os
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
    """Write tensors; a full disk raises `OSError`, as for every other file."""
    separate = {name: value.detach().contiguous().clone() for name, value in tensors.items()}
    try:
        save_file(separate, path, metadata=dict(metadata or {}))
    except SafetensorError as problem:
        said = str(problem).partition(" (os error ")[0].rpartition(":")[2]
        raise OSError(said.strip()) from None


MANIFEST = "manifest.json"
"""Every folder that Whence writes contains this file."""


def check_can_write(folder: Path, overwrite: bool) -> None:
    """Raise if the folder exists, unless Whence wrote it and it may be overwritten."""
    if not folder.exists():
        return
    if not overwrite:
        raise InputError(
            f"{folder} already exists. Choose another folder, or give --overwrite (in Python "
            "overwrite=True)."
        )
    if not (folder / MANIFEST).is_file():
        raise InputError(
            f"{folder} was not written by Whence, so it is not overwritten. Choose another folder."
        )


@contextmanager
def new_folder(folder: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `folder` if the block succeeds.

    After any failure, including a full disk and Ctrl-C, the former content is still there.
    """
    folder = folder.resolve()
    _tidy(folder)
    check_can_write(folder, overwrite)
    partial, former = _hidden_name(folder, "partial"), _hidden_name(folder, "former")
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
    """Yield a temporary path that is renamed to `path` if the block succeeds."""
    path = path.resolve()
    _tidy(path)
    partial = _hidden_name(path, "partial")
    with _writing(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield partial
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def make_parent(path: Path) -> None:
    """Create the folder of `path` before long work, so that it does not fail at the end."""
    with _writing(path):
        path.resolve().parent.mkdir(parents=True, exist_ok=True)


def write_json(path: Path, document: object) -> None:
    """Write JSON with a final newline."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def write_array(path: Path, array: npt.NDArray[Any]) -> None:
    """Write a `.npy` file; unlike `np.save`, this raises if the disk is full."""
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object, or raise an `InputError`."""
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
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def reason(problem: OSError) -> str:
    """Return the message of the system, also from errors of Arrow."""
    said = problem.strerror or str(problem)
    return said.rpartition("] ")[2].rstrip(".")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn errors of the system while writing into an `InputError`."""
    try:
        yield
    except OSError as problem:
        raise InputError(f"{path} cannot be written: {reason(problem)}.") from problem


def _tidy(path: Path) -> None:
    """Restore or remove what a killed process left here."""
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


def _hidden_name(path: Path, what: str) -> Path:
    return path.with_name(f".{path.name}.{what}-{os.getpid()}")
