"""Newer events of a catalog that a model was trained on: the same items under the same numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from whence.arrays import Ints
from whence.data.catalog import Catalog
from whence.data.interactions import Interactions

UNKNOWN = -1


def align(events: Interactions, catalog: Catalog, users: pa.Table | None = None) -> Interactions:
    """Return the events whose items are in the catalog, numbered as there.

    Users keep their order, and those without any such event have an empty history. If `users` are
    given, the result has exactly these users in this order: models that know their users by number
    need that.
    """
    item = places(events.catalog.table["item"], catalog.table["item"])[events.items]
    user = events.user_of_event().astype(np.int64)
    if users is not None:
        user = places(events.users["user"], users["user"])[user]
    known = np.flatnonzero((item != UNKNOWN) & (user != UNKNOWN))
    rows = known[np.argsort(user[known], kind="stable")]
    table = events.users if users is None else users
    counts = np.bincount(user[rows], minlength=table.num_rows)
    return replace(
        events,
        items=item[rows].astype(np.int32),
        offsets=np.concatenate(([0], counts.cumsum())).astype(np.int64),
        times=None if events.times is None else events.times[rows],
        ratings=None if events.ratings is None else events.ratings[rows],
        catalog=catalog,
        users=table,
    )


def places(ids: pa.ChunkedArray, among: pa.ChunkedArray) -> Ints:
    """Return the row of each id among others, or `UNKNOWN`; numbers also match their texts."""
    if ids.type != among.type:
        ids, among = ids.cast(pa.string()), among.cast(pa.string())
    found = pc.index_in(ids, value_set=among.combine_chunks())
    rows: Ints = pc.fill_null(found, UNKNOWN).to_numpy().astype(np.int64)
    return rows
