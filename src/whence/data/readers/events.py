"""Interactions from the columns of a source, with the features of items and users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from whence.data.catalog import Catalog
from whence.data.interactions import Interactions
from whence.data.readers.arrow import FrameTable
from whence.data.readers.detect import open_tabular
from whence.data.readers.tabular import (
    GUESSES,
    NOT_USED,
    Frame,
    ReadOptions,
    Tabular,
    bare,
    listed,
)
from whence.data.readers.values import SourceColumn
from whence.errors import InputError


def read_events(
    source: Tabular, reading: ReadOptions, origin: Mapping[str, Any] | None = None
) -> Interactions:
    """Return one event per row; without a time column, rows are in the order of time."""
    roles = source.roles(reading)
    if "time" not in roles and not source.in_order:
        raise InputError(
            f"{source.place} returns no time, and its rows have no order. Select a time, or add "
            "ORDER BY."
        )
    if "time" not in roles and reading.time is None:
        source.warn_of_unused_dates(roles)
    as_written = [roles[role] for role in ("user", "item", "title") if role in roles]
    table = source.read(list(dict.fromkeys(roles.values())), as_written)
    if not table.num_rows:
        raise InputError(f"{source.place} has no rows. It needs a row for each event.")
    read = {
        role: SourceColumn(source.place, name, table[name], source.first_row)
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
        columns["title"] = reading.title  # the column is in the items' table
    resolved = replace(reading, **columns)
    events = _with_tables(events, resolved, reading.title if "title" not in roles else None)
    known = {} if origin is None or _from_memory(reading) else dict(origin)
    return replace(events, origin={**known, "reading": _as_origin(resolved)})


def add_features(
    events: Interactions, items: pa.Table | None = None, users: pa.Table | None = None
) -> Interactions:
    """Return the events with features of items and users."""
    if items is not None:
        table = with_features(events.catalog.table, items, "item")
        events = replace(events, catalog=Catalog(table))
    if users is not None:
        events = replace(events, users=with_features(events.users, users, "user"))
    return events


def read_features(
    file: Tabular, role: str, id_column: str | None = None, title: str | None = None
) -> pa.Table:
    """Return all columns of a file with one row per item or user, with the ids in `role`."""
    names = file.distinct_names()
    numbered = names == [str(place + 1) for place in range(len(names))]
    # Without names, the first column is the id and an item's second column is its title.
    name = id_column if id_column in names else file.guesses().get(role)
    if numbered:
        name = "1"
    if name is None:
        raise InputError(
            f"{file.place}: which column is the {role}? Give it the same name as in the events. "
            f"The columns are {listed(names)}."
        )
    if title not in (None, NOT_USED, *names):
        raise InputError(
            f"{file.place} has no column '{title}' for the title. It has {listed(names)}."
        )
    if title is None and role == "item":
        title = "2" if numbered and len(names) > 1 else _title(file)
    table = file.read(names, names)
    if not table.num_rows:
        raise InputError(f"{file.place} has no rows. It needs a row for each {role}.")
    ids = SourceColumn(file.place, name, table[name], file.first_row).ids()
    columns = {role: ids.cast(ids.type.value_type)}
    for other in names:
        if other != name:
            column = SourceColumn(file.place, other, table[other], file.first_row)
            columns["title" if other == title else other] = (
                column.texts().cast(pa.string()) if other == title else column.feature()
            )
    return pa.table(columns)


def _title(file: Tabular) -> str | None:
    """Return the title column; in a file of items, `name` is a title too."""
    named = next((name for name in file.names() if bare(name) == "name"), None)
    return file.guesses().get("title", named)


def with_features(known: pa.Table, features: pa.Table, role: str) -> pa.Table:
    """Return `known` with the columns of `features`, joined by id.

    An id without features gets nulls. If an id has several rows, the first one counts.
    """
    ids, among = known[role], features[role].combine_chunks()
    if ids.type != among.type:
        ids, among = ids.cast(pa.string()), among.cast(pa.string())
    row = pc.index_in(ids, value_set=among)
    if len(row) and row.null_count == len(row):
        raise InputError(
            f"No {role} of the events is in the table of {role}s. Its ids look like {among[0]}, "
            f"those of the events like {ids[0]}. Check which columns hold the ids."
        )
    for name in features.column_names:
        if name != role:
            column = features[name].take(row)
            place = known.schema.get_field_index(name)
            known = (
                known.append_column(name, column)
                if place < 0
                else known.set_column(place, name, column)
            )
    return known


def _with_tables(events: Interactions, reading: ReadOptions, title: str | None) -> Interactions:
    """Return the events with the features in the files or frames that the options name."""
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


def _as_origin(reading: ReadOptions) -> dict[str, Any]:
    """Return the options as JSON, with absolute paths of files."""
    options = reading.changed_fields()
    for name in options.keys() & {"items", "users"}:
        is_file = isinstance(options[name], str | Path)
        options[name] = str(Path(options[name]).absolute()) if is_file else "a table in memory"
    return options


def _from_memory(reading: ReadOptions) -> bool:
    return any(isinstance(table, Frame) for table in (reading.items, reading.users))
