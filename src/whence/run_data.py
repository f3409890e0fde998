"""The data of a run: those of its training, from a private copy or named, and newer events."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from whence.data.alignment import UNKNOWN, align, places
from whence.data.catalog import Catalog
from whence.data.copies import open_copy
from whence.data.interactions import Interactions
from whence.data.origins import load_like, prepare_like
from whence.data.readers.tabular import ReadOptions
from whence.data.sources import Source
from whence.errors import InputError, RunError

NAMED_UNKNOWN = 3
"""How many unknown items a warning names."""
Description = Mapping[str, Any]
"""What a run records about its data."""


def training_events(
    data: Source, reading: ReadOptions | None, described: Description, catalog: Catalog
) -> Interactions:
    """Return the data of the training, which you name; others are refused."""
    given = load_like(data, described["origin"], reading)
    prepared = prepare_like(given, described["origin"])
    for events in (given, prepared):
        if (own := _as_trained(events, described, catalog)) is not None:
            return own
    raise InputError(
        "These are not the data that the run was trained on. They have "
        f"{len(prepared):,} events of {prepared.user_count:,} users; the training had "
        f"{described['events']:,} of {described['users']:,}. Name the data of the training."
    )


def _as_trained(
    events: Interactions, described: Description, catalog: Catalog
) -> Interactions | None:
    """Return the events under the numbers of the training, if they are those of the training.

    Titles and features may be others.
    """
    if (events.user_count, len(events)) != (described["users"], described["events"]):
        return None
    verb = str(described["verb"])
    if events.content_hash == described["hash"]:
        return replace(events, verb=verb)
    aligned = replace(align(events, catalog), verb=verb)
    return aligned if aligned.event_hash == described["event_hash"] else None


def newer_events(
    data: Source,
    reading: ReadOptions | None,
    described: Description,
    catalog: Catalog,
    users: pa.Table | None,
) -> Interactions:
    """Return other events of the same items, and of these users if they are given.

    Events with items that the run does not know are left out with a warning.
    """
    origin = described["origin"]
    # Filters by counts are for training: a new user has few events.
    events = prepare_like(load_like(data, origin, reading), origin, by_counts=False)
    ids = events.catalog.table["item"]
    unknown = places(ids, catalog.table["item"]) == UNKNOWN
    some = ", ".join(str(one) for one in ids.filter(pa.array(unknown))[:NAMED_UNKNOWN])
    if unknown.all():
        raise InputError(
            f"No item of these data is in the catalog of the run. Their ids are like {some}, "
            f"those of the run like {catalog.table['item'][0]}. Name data of the same items."
        )
    if unknown.any():
        warnings.warn(
            f"The run does not know {int(unknown.sum()):,} of the {len(unknown):,} items in "
            f"these data ({some}{', …' if unknown.sum() > NAMED_UNKNOWN else ''}). Events with "
            f"them are left out: {int(unknown[events.items].sum()):,}. Train again to include "
            "them.",
            stacklevel=3,
        )
    return replace(align(events, catalog, users), verb=str(described["verb"]))


def private_copy(described: Description, catalog: Catalog) -> Interactions | None:
    """Return the private copy of the data; a run that does not fit it states a wrong hash."""
    copy = open_copy(described["hash"])
    if copy is None:
        return None
    same = (copy.user_count, len(copy)) == (described["users"], described["events"])
    if not same or not copy.catalog.table["item"].equals(catalog.table["item"]):
        raise RunError("The data of this run are not those that its hash names. Train it again.")
    return copy


def known_users(model: str, described: Description, catalog: Catalog) -> pa.Table:
    """Return the users of the training, in order, for a model that knows them by number."""
    copy = private_copy(described, catalog)
    if copy is None:
        raise InputError(
            f"{model} recommends only to users it was trained on, and the data of the "
            "training, which list them, are not here. Name those data."
        )
    return copy.users
