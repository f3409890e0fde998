"""Folders and files that are there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from whence.errors import InputError


@contextmanager
def new_folder(folder: Path, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder beside `folder`, renamed to it when the block ends well.

    On any failure, a full disk or Ctrl-C included, nothing is left behind.
    """
    if folder.exists() and not overwrite:
        raise InputError(f"{folder} is there already; name another folder or remove it.")
    partial = _beside(folder, "partial")
    try:
        partial.mkdir(parents=True)
        yield partial
        if folder.exists():
            former = folder.rename(_beside(folder, "former"))
            partial.rename(folder)
            shutil.rmtree(former)
        else:
            partial.rename(folder)
    except OSError as problem:
        raise InputError(f"{folder} cannot be written: {problem.strerror or problem}.") from problem
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A temporary file beside `path`, renamed to it when the block ends well."""
    partial = _beside(path, "partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        partial.replace(path)
    except OSError as problem:
        raise InputError(f"{path} cannot be written: {problem.strerror or problem}.") from problem
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, document: object) -> None:
    """JSON with a final newline."""
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, or one sentence."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise InputError(f"{path} cannot be read: {problem}.") from None
    if not isinstance(document, dict):
        raise InputError(f"{path} does not hold a JSON object.")
    return document


def sha256(path: Path) -> str:
    """The file's checksum."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f".{path.name}.{what}-{os.getpid()}")
