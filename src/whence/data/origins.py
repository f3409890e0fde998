"""Where data came from, as a run or a folder states it: shown, and read again only if you say so.

Anybody may have written an origin. It can name a file, or a query on a database, so nothing here
follows one unless the caller repeats the code that is shown next to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from whence.config import build
from whence.data.addresses import public_name
from whence.data.datasets import DATASETS, world_interactions
from whence.data.interactions import Interactions
from whence.data.preparation import Preparation, prepare
from whence.data.readers.database import is_database_url
from whence.data.readers.tabular import ReadOptions
from whence.data.sources import Source, load, takes_options
from whence.errors import InputError

LAYOUT = ("user", "item", "time", "rating", "format", "header", "encoding", "keep_duplicates")
"""Options that say how rows are written. The others name files and queries, or titles."""
LONGEST_SHOWN = 1_200


def describe_origin(origin: Mapping[str, Any]) -> str:
    """Return the whole origin in one line."""
    return json.dumps(origin)


def origin_code(origin: Mapping[str, Any]) -> str:
    """Return the code that a user repeats after having seen the origin."""
    canonical = json.dumps(origin, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:8]


def how_to_read(origin: Mapping[str, Any]) -> str:
    """Return the sentence that shows the origin, with the code that allows reading from it."""
    if "source" not in origin:
        return "They came from memory."
    shown = describe_origin(origin)
    if len(shown) > LONGEST_SHOWN:
        return "Their origin is too long to be shown here; it is in run.json."
    return f"Their origin is {shown}. To read it again, add --origin {origin_code(origin)}."


def read_origin(origin: Mapping[str, Any], code: str) -> Interactions:
    """Return the data of an origin that the user has seen."""
    if code != origin_code(origin) or len(describe_origin(origin)) > LONGEST_SHOWN:
        raise InputError(f"The code '{code}' is not that of the origin. {how_to_read(origin)}")
    return reload(origin)


def reload(origin: Mapping[str, Any]) -> Interactions:
    """Return interactions again, from an `origin` that can be trusted."""
    if "source" not in origin:
        raise InputError("The data came from memory, so they cannot be read again. Name them.")
    if "world" in origin:
        return world_interactions(origin["world"])
    source = str(origin["source"])
    if source not in DATASETS and not is_database_url(source) and not Path(source).exists():
        raise InputError(
            f"The data are no longer in {public_name(source)}. Name them with --data, or give a "
            "history instead of a user."
        )
    events = load(source, build(ReadOptions, origin.get("reading", {})))
    return prepare_like(events, origin)


def load_like(
    source: Source, origin: Mapping[str, Any], reading: ReadOptions | None
) -> Interactions:
    """Return data whose rows are written as those of the origin, unless options say otherwise."""
    if not takes_options(source):
        return load(source, reading)
    known = origin.get("reading", {})
    layout = {name: known[name] for name in LAYOUT if name in known}
    given = {} if reading is None else reading.changed_fields()
    # Titles and features are those of the run.
    return load(source, build(ReadOptions, {**layout, "title": "none", **given}))


def prepare_like(
    events: Interactions, origin: Mapping[str, Any], by_counts: bool = True
) -> Interactions:
    """Return the events that pass the filters of the origin, or only those not `by_counts`."""
    for step in origin.get("preparation", []):
        filters = build(Preparation, step)
        if not by_counts:
            filters = replace(filters, min_user_events=1, min_item_events=1)
        events = prepare(events, filters)
    return events
