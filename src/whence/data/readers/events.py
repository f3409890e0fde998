"""From the columns of a source to interactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from whence.data.catalog import Catalog
from whence.data.interactions import Interactions
from whence.data.readers.arrow import FrameTable
from whence.data.readers.detect import open_tabular
from whence.data.readers.features import read_features, with_features
from whence.data.readers.tabular import GUESSES, NOT_USED, Frame, ReadOptions, Tabular
from whence.data.readers.values import Column
from whence.errors import InputError


def read_events(
    source: Tabular, reading: ReadOptions, origin: Mapping[str, Any] | None = None
) -> Interactions:
    """Every row an event; without a time column the row order is the order in time."""
    roles = source.roles(reading)
    if "time" not in roles and not source.in_order:
        raise InputError(
            f"{source.place} gives rows in no order, and no time; select a time, or ORDER BY one."
        )
    as_written = [roles[role] for role in ("user", "item", "title") if role in roles]
    table = source.read(list(dict.fromkeys(roles.values())), as_written)
    if not table.num_rows:
        raise InputError(f"{source.place} has no rows; there is nothing to learn from.")
    read = {
        role: Column(source.place, name, table[name], source.first_row)
        for role, name in roles.items()
    }
    del table
    events = Interactions.from_columns(
        user=read["user"].ids(),
        item=read["item"].ids(),
        time=read["time"].times() if "time" in read else None,
        rating=read["rating"].numbers() if "rating" in read else None,
        title=read["title"].texts() if "title" in read else None,
        keep_duplicates=reading.keep_duplicates,
        verb=reading.verb or "chose",
    )
    columns: dict[str, Any] = {role: roles.get(role, NOT_USED) for role in GUESSES}
    if reading.items is not None and "title" not in roles:
        columns["title"] = reading.title  # told of the items' table, if at all
    resolved = replace(reading, **columns)
    events = _with_tables(events, resolved, reading.title if "title" not in roles else None)
    known = {} if origin is None or _from_memory(reading) else dict(origin)
    return replace(events, origin={**known, "reading": _said(resolved)})


def add_features(
    events: Interactions, items: pa.Table | None = None, users: pa.Table | None = None
) -> Interactions:
    """With what is known of the items and users."""
    if items is not None:
        table = with_features(events.catalog.table, items, "item")
        events = replace(events, catalog=Catalog(table))
    if users is not None:
        events = replace(events, users=with_features(events.users, users, "user"))
    return events


def _with_tables(events: Interactions, reading: ReadOptions, title: str | None) -> Interactions:
    """The item and user features of the files or frames that the reading names."""
    items = users = None
    if reading.items is not None:
        items = read_features(_table(reading.items, reading), "item", reading.item, title)
    if reading.users is not None:
        users = read_features(_table(reading.users, reading), "user", reading.user)
    return add_features(events, items, users)


def _table(source: str | Path | Frame, reading: ReadOptions) -> Tabular:
    if isinstance(source, str | Path):
        return open_tabular(Path(source), ReadOptions(encoding=reading.encoding))
    return FrameTable(source)


def _said(reading: ReadOptions) -> dict[str, Any]:
    """With files named so that they are found from anywhere, and frames as what they are."""
    said = reading.said()
    for name in said.keys() & {"items", "users"}:
        is_file = isinstance(said[name], str | Path)
        said[name] = str(Path(said[name]).absolute()) if is_file else "a table in memory"
    return said


def _from_memory(reading: ReadOptions) -> bool:
    return any(isinstance(table, Frame) for table in (reading.items, reading.users))
