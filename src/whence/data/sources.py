"""`load`: interactions from a name, a file, a folder, a database or a frame."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from whence.data.addresses import looks_like_address, public_name, without_password
from whence.data.datasets import DATASETS, read_named
from whence.data.interactions import Interactions
from whence.data.preparation import Preparation, prepare
from whence.data.prepared import read_prepared
from whence.data.readers.arrow import FrameTable
from whence.data.readers.database import is_database_url, open_query
from whence.data.readers.detect import open_tabular
from whence.data.readers.events import read_events
from whence.data.readers.source_files import clear_read_errors
from whence.data.readers.tabular import Frame, ReadOptions
from whence.errors import InputError, did_you_mean
from whence.files import MANIFEST

Source = str | Path | Frame | Interactions
"""A known name, a file, a folder, the URL of a database, a frame, or loaded interactions."""


def load(
    source: Source, reading: ReadOptions | None = None, preparation: Preparation | None = None
) -> Interactions:
    """Return interactions from a known name, a file, a prepared folder, a database or a frame."""
    events = _read(source, reading or ReadOptions())
    return events if preparation is None else prepare(events, preparation)


def _read(source: Source, reading: ReadOptions) -> Interactions:
    if isinstance(source, Interactions):
        return source
    if not isinstance(source, str | Path):
        if not isinstance(source, Frame):
            raise InputError(
                f"Interactions cannot be read from a {type(source).__name__}. Give a name, a path, "
                "a URL or a frame."
            )
        return read_events(FrameTable(source), reading)
    if is_database_url(str(source)):
        return read_events(
            open_query(str(source), reading), reading, {"source": without_password(str(source))}
        )
    name = str(source).lower()
    # A file may be called like a dataset but for its capitals.
    if name in DATASETS and (name == str(source) or not Path(source).exists()):
        return _with_verb(read_named(name), reading)
    with clear_read_errors(public_name(str(source))):
        return _read_path(source, reading)


def _read_path(source: str | Path, reading: ReadOptions) -> Interactions:
    path = Path(source)
    if path.is_dir() and (path / MANIFEST).exists():
        return _with_verb(read_prepared(path), reading)
    if not path.exists() and looks_like_address(str(source)):
        raise InputError(
            "This address is not supported, and no file has this name. A database URL starts with "
            "postgresql:// or sqlite:///."
        )
    if reading.query is not None:
        raise InputError(f"{source} is not a database, so it takes no query. Omit --query.")
    if not path.exists() and (path.suffix or len(path.parts) > 1):
        raise InputError(f"There is no file or folder {source}. Check the path.")
    if not path.exists():
        raise InputError(
            f"There is no file and no dataset '{source}': {did_you_mean(str(source), DATASETS)}"
        )
    return read_events(open_tabular(path, reading), reading, {"source": str(path.absolute())})


def _with_verb(events: Interactions, reading: ReadOptions) -> Interactions:
    """Return named or prepared data, which take no options for reading except the verb."""
    if given := reading.changed_fields().keys() - {"verb"}:
        raise InputError(
            f"Named datasets and prepared folders take no {', '.join(sorted(given))}. These "
            "options are for files and databases."
        )
    return events if reading.verb is None else replace(events, verb=reading.verb)


def takes_options(source: Source) -> bool:
    """Return whether the source is a file, a query or a frame, which options say how to read."""
    if not isinstance(source, str | Path):
        return not isinstance(source, Interactions)
    is_prepared = (Path(source) / MANIFEST).exists()
    return is_database_url(str(source)) or not (is_prepared or str(source).lower() in DATASETS)
