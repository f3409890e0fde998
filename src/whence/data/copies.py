"""Private copies of the data that runs were trained on, found by their content hash.

A run folder holds no histories, so that sharing one shares none. When a run is saved, its data are
stored here as a prepared folder, which serves the users of a reopened run. Copies can be deleted at
any time: the data are then named again.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import warnings
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from whence.data.interactions import Interactions
from whence.data.prepared import read_prepared
from whence.errors import InputError
from whence.files import MANIFEST, read_json, reason
from whence.locks import abandoned, hold

FOLDER_VARIABLE = "WHENCE_CACHE"
HASH = re.compile(r"[0-9a-f]{64}")
"""A hash comes from a run folder, which others may have written, and becomes part of a path."""
PARTIAL = ".partial-"


def cache_folder() -> Path:
    """Return the folder of what can be made again: `WHENCE_CACHE`, or one in the user's cache."""
    return Path(os.environ.get(FOLDER_VARIABLE) or Path.home() / ".cache" / "whence")


def copies_folder() -> Path:
    """Return the folder of all copies."""
    return cache_folder() / "data"


def keep_copy(interactions: Interactions) -> None:
    """Write a copy of the data if there is none. A failure is only a warning.

    Several processes may do this at once: each writes to its own folder, and the first rename wins.
    """
    folder = copies_folder()
    copy = folder / interactions.content_hash
    if copy.exists():
        return
    partial = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        with ExitStack() as stack:
            with hold(folder):  # so that nobody sees the new folder before it is held
                _remove_abandoned(folder)
                # Readable by its owner alone.
                partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=folder))
                stack.enter_context(hold(partial))
            interactions.write_files(partial)
            partial.rename(copy)
            partial = None
    except OSError as problem:
        if not copy.exists():
            warnings.warn(
                f"The data could not be copied to {folder} ({reason(problem)}). To recommend to "
                "their users later, name the data with --data.",
                stacklevel=2,
            )
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)


def open_copy(content_hash: str) -> Interactions | None:
    """Return the data with this hash if there is a sound copy; a damaged copy is removed."""
    copy = copies_folder() / content_hash
    if not HASH.fullmatch(content_hash) or not copy.is_dir():
        return None
    try:
        found = read_prepared(copy)
        if found.content_hash != content_hash:
            raise InputError(f"{copy} holds other data.")
        origin = read_json(copy / MANIFEST).get("origin")
    except InputError as problem:
        warnings.warn(f"A damaged copy of the data is ignored: {problem}", stacklevel=2)
        shutil.rmtree(copy, ignore_errors=True)
        return None
    return replace(found, origin=origin if isinstance(origin, dict) else {})


def describe_copies() -> str:
    """Return one line for `whence doctor`: where the copies are and how large they are."""
    folder = copies_folder()
    copies = [path for path in folder.glob("*") if path.is_dir()]
    size = sum(file.stat().st_size for copy in copies for file in copy.glob("*"))
    count = f"{len(copies)} {'copy' if len(copies) == 1 else 'copies'}"
    return f"{folder} ({count}, {size / 2**20:.1f} MB; safe to delete)"


def _remove_abandoned(folder: Path) -> None:
    """Remove the unfinished copies of processes that were killed."""
    for left in folder.glob(f"{PARTIAL}*"):
        with abandoned(left) as nobody_writes:
            if nobody_writes:
                shutil.rmtree(left, ignore_errors=True)
