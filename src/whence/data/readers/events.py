"""From the columns of a source to interactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from whence.data.catalog import Catalog
from whence.data.interactions import Interactions
from whence.data.readers.features import read_features, with_features
from whence.data.readers.reading import GUESSES, NOT_USED, Reading, Tabular
from whence.data.readers.recognise import open_tabular
from whence.data.readers.values import Column
from whence.errors import InputError


def read_events(
    source: Tabular, reading: Reading, origin: Mapping[str, Any] | None = None
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
    resolved = replace(reading, **columns)
    events = _with_files(events, resolved)
    return replace(events, origin={**origin, "reading": _said(resolved)} if origin else {})


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


def _with_files(events: Interactions, reading: Reading) -> Interactions:
    """The item and user features of the files that the reading names."""
    tables = {
        role: read_features(
            open_tabular(Path(path), Reading(encoding=reading.encoding)), role, told
        )
        for role, path, told in (
            ("item", reading.items, reading.item),
            ("user", reading.users, reading.user),
        )
        if path is not None
    }
    return add_features(events, tables.get("item"), tables.get("user"))


def _said(reading: Reading) -> dict[str, Any]:
    """Only what is not the default, with files named so that they are found from anywhere."""
    said = {
        name: value for name, value in asdict(reading).items() if value != getattr(Reading(), name)
    }
    for name in ("items", "users"):
        if name in said:
            said[name] = str(Path(said[name]).absolute())
    return said
