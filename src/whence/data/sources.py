"""`load`: one door to interactions, whatever form they are in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from whence.config import build
from whence.data.datasets import DATASETS, read_named, world_interactions
from whence.data.interactions import Interactions, read_prepared
from whence.data.preparation import Preparation, prepare
from whence.data.readers.arrow import FrameTable
from whence.data.readers.database import (
    is_database_url,
    looks_like_address,
    open_query,
    without_password,
)
from whence.data.readers.detect import open_tabular
from whence.data.readers.events import read_events
from whence.data.readers.source_files import clear_read_errors
from whence.data.readers.tabular import Frame, ReadOptions
from whence.errors import InputError, did_you_mean
from whence.files import MANIFEST

Source = str | Path | Frame | Interactions
"""A known name, a file, a folder, a database's URL, a frame, or what was loaded before."""


def load(
    source: Source, reading: ReadOptions | None = None, preparation: Preparation | None = None
) -> Interactions:
    """Interactions from a known name, a file, a prepared folder, a database or a frame."""
    events = _read(source, reading or ReadOptions())
    return events if preparation is None else prepare(events, preparation)


def _read(source: Source, reading: ReadOptions) -> Interactions:
    if isinstance(source, Interactions):
        return source
    if not isinstance(source, str | Path):
        if not isinstance(source, Frame):
            raise InputError(f"Interactions cannot be read from a {type(source).__name__}.")
        return read_events(FrameTable(source), reading)
    if is_database_url(str(source)):
        return read_events(
            open_query(str(source), reading), reading, {"source": without_password(str(source))}
        )
    if str(source) in DATASETS:
        return _with_verb(read_named(str(source)), reading)
    with clear_read_errors(str(source)):
        return _read_path(source, reading)


def _read_path(source: str | Path, reading: ReadOptions) -> Interactions:
    path = Path(source)
    if path.is_dir() and (path / MANIFEST).exists():
        return _with_verb(read_prepared(path), reading)
    if reading.query is not None:
        raise InputError(f"{source} is no database, and a query is for one; leave it out.")
    if not path.exists() and looks_like_address(str(source)):
        raise InputError(
            "This address is not understood; a database's begins with postgresql:// or sqlite:///."
        )
    if not path.exists():
        raise InputError(
            f"There is no file '{source}', and no dataset of that name: "
            f"{did_you_mean(str(source), DATASETS)}"
        )
    return read_events(open_tabular(path, reading), reading, {"source": str(path.absolute())})


def _with_verb(events: Interactions, reading: ReadOptions) -> Interactions:
    """What is known by name or prepared needs no reading; only its verb may be another."""
    if reading.said().keys() - {"verb"}:
        raise InputError(
            "These data are read as they are; columns, formats and tables of items are told of "
            "files and databases."
        )
    return events if reading.verb is None else replace(events, verb=reading.verb)


def reload(origin: Mapping[str, Any]) -> Interactions:
    """Interactions again, from the `origin` they carry."""
    if "source" not in origin:
        raise InputError("These data came from memory; save them, and train on the saved folder.")
    if "world" in origin:
        return world_interactions(origin["world"])
    source = origin["source"]
    if source not in DATASETS and not is_database_url(source) and not Path(source).exists():
        raise InputError(
            f"The data of this run were in {source}, and are no longer there; put them back, or "
            "give a history by hand."
        )
    events = load(source, build(ReadOptions, origin.get("reading", {})))
    for step in origin.get("preparation", []):
        events = prepare(events, build(Preparation, step))
    return events
