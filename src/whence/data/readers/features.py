"""What is known of items and users besides the events: titles, genres, ages."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from whence.data.readers.tabular import NOT_USED, Tabular, bare
from whence.data.readers.values import Column
from whence.errors import InputError


def read_features(
    file: Tabular, role: str, told: str | None = None, title: str | None = None
) -> pa.Table:
    """All columns of a file with a row for each item or user; its ids in the column `role`."""
    names = file.distinct_names()
    numbered = names == [str(place + 1) for place in range(len(names))]
    # Without names the id comes first and, of an item, the title second.
    name = "1" if numbered else told if told in names else file.guesses().get(role)
    if name is None:
        raise InputError(
            f"{file.place}: which column is the {role}? Name it as in the events; it has "
            f"{', '.join(names)}."
        )
    if title not in (None, NOT_USED, *names):
        raise InputError(
            f"{file.place} has no column '{title}' for the title; it has {', '.join(names)}."
        )
    if title is None and role == "item":
        title = "2" if numbered and len(names) > 1 else _title(file)
    table = file.read(names, names)
    ids = Column(file.place, name, table[name], file.first_row).ids()
    columns = {role: ids.cast(ids.type.value_type)}
    for other in names:
        if other != name:
            column = Column(file.place, other, table[other], file.first_row)
            columns["title" if other == title else other] = (
                column.texts().cast(pa.string()) if other == title else column.feature()
            )
    return pa.table(columns)


def _title(file: Tabular) -> str | None:
    """Among items a `name` is a title; among events it might be the user's."""
    named = next((name for name in file.names() if bare(name) == "name"), None)
    return file.guesses().get("title", named)


def with_features(known: pa.Table, features: pa.Table, role: str) -> pa.Table:
    """The columns of `features` beside the ids of `known`; nothing where an id is missing there.

    Where an id has several rows the first one counts.
    """
    ids, among = known[role], features[role].combine_chunks()
    if ids.type != among.type:
        ids, among = ids.cast(pa.string()), among.cast(pa.string())
    row = pc.index_in(ids, value_set=among)
    if len(row) and row.null_count == len(row):
        raise InputError(
            f"None of the {role}s of the events is in the table of {role}s: there the ids are such "
            f"as {among[0]}, here such as {ids[0]}."
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
