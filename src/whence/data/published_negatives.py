"""Published negatives: 99 items for each test event, among which several papers rank its item.

He et al. (2017) published them with Neural Collaborative Filtering, for their test events of
MovieLens 1M. These are the last of each user, but where several are of the same second they are not
the last in the order of `ml-1m`; in that of `ml-1m-ncf` they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from whence.arrays import Ints
from whence.data.dataset_files import NOT_AS_PUBLISHED, data_folders, find_file, layout_here
from whence.data.datasets import DATASETS
from whence.data.histories import Cases
from whence.data.interactions import Interactions
from whence.data.readers.detect import open_tabular
from whence.data.readers.source_files import clear_read_errors, open_bytes
from whence.data.readers.tabular import ReadOptions
from whence.errors import InputError

NEGATIVES: Final = 99
"""For every test event."""
UNKNOWN: Final = -1
_READ: WeakKeyDictionary[Interactions, PublishedNegatives] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class PublishedNegatives:
    """By user: the item of the test event, and its negatives; −1 for what is not in the data."""

    source: str
    targets: Ints
    """`[users]`."""
    items: Ints
    """`[users, 99]`."""

    def fits(self, cases: Cases) -> bool:
        """Whether these are test events that negatives are published for."""
        rows = cases.users
        return bool((self.targets[rows] == cases.targets).all() and (self.items[rows] >= 0).all())

    def of(self, cases: Cases) -> Ints:
        """`[B, 99]`: the negatives of these test events.

        The published file has a few items among their own negatives; whoever ranks leaves them out.
        """
        others = int((self.targets[cases.users] != cases.targets).sum())
        if others:
            raise InputError(
                f"{others:,} of the {len(cases):,} events are not those that negatives are "
                "published for; take the test events of ml-1m-ncf, with the split last-one."
            )
        missing = int((self.items[cases.users] < 0).sum())
        if missing:
            raise InputError(
                f"{missing:,} of the published negatives are not among the items of these data; "
                f"take {self.source} as a whole."
            )
        found: Ints = self.items[cases.users]
        return found


def published_negatives(interactions: Interactions) -> PublishedNegatives:
    """Those of a dataset known by name; where there are none, a sentence says so."""
    source, file = _place(interactions)
    if file is None:
        known = [name for name, one in DATASETS.items() if any(i.negatives for i in one.layouts)]
        raise InputError(f"No negatives are published for {source}, only for {', '.join(known)}.")
    found = find_negatives(interactions)
    if found is None:
        raise InputError(
            f"The negatives published for {source} are not here: put {file} into "
            f"{data_folders()[0]}."
        )
    return found


def find_negatives(interactions: Interactions) -> PublishedNegatives | None:
    """The same, where they are here; read once for the data."""
    if interactions not in _READ:
        source, file = _place(interactions)
        path = None if file is None else find_file(file)
        if path is None:
            return None
        _READ[interactions] = _read(interactions, source, path)
    return _READ[interactions]


def _place(interactions: Interactions) -> tuple[str, str | None]:
    """The data's name, and where their negatives should lie, if any are published."""
    source = str(interactions.origin.get("source", "data in memory"))
    layout = layout_here(DATASETS[source]) if source in DATASETS else None
    return source, None if layout is None else layout.negatives


def _read(interactions: Interactions, source: str, path: Path) -> PublishedNegatives:
    with clear_read_errors(str(path)):
        try:
            raw = _translated(path) if _has_header(path) else _release(path)
            if raw.shape[1] != 2 + NEGATIVES:
                raise ValueError(f"{raw.shape[1] - 2} negatives a test event")
        except NOT_AS_PUBLISHED as problem:
            raise InputError(
                f"{path} does not hold {NEGATIVES} negatives for every test event ({problem}); "
                "get it again."
            ) from None
    user = _numbers(raw[:, 0], interactions.users["user"])
    items = _numbers(raw[:, 1:], interactions.catalog.table["item"])
    known = user >= 0
    by_user = np.full((interactions.user_count, 1 + NEGATIVES), UNKNOWN)
    by_user[user[known]] = items[known]
    return PublishedNegatives(source, by_user[:, 0], by_user[:, 1:])


def _has_header(path: Path) -> bool:
    """The first line of the publisher's own file begins with a pair in brackets."""
    with open_bytes(path) as content:
        return bool(content.read(1) != b"(")


def _release(path: Path) -> Ints:
    """`[U, 101]` raw ids, from lines of `(user,item)` and the negatives, separated by tabs."""
    with open_bytes(path) as content:
        lines = content.read().translate(bytes.maketrans(b"(),", b"   ")).splitlines()
    return np.array([line.split() for line in lines]).astype(np.int64)


def _translated(path: Path) -> Ints:
    """The same, from columns `user_id`, `movie_id` and `negatives`, these separated by blanks."""
    table = open_tabular(path, ReadOptions()).read(
        ["user_id", "movie_id", "negatives"], ["negatives"]
    )
    user, item = (table[name].to_numpy().astype(np.int64) for name in ("user_id", "movie_id"))
    negatives = [line.split() for line in table["negatives"].to_pylist()]
    return np.column_stack((user, item, np.array(negatives).astype(np.int64)))


def _numbers(raw: Ints, ids: pa.ChunkedArray) -> Ints:
    """In the shape of `raw`: the row of each id; −1 for one that is not there."""
    places = pc.index_in(pa.array(raw.ravel()).cast(ids.type), value_set=ids.combine_chunks())
    return np.asarray(pc.fill_null(places, UNKNOWN), np.int64).reshape(raw.shape)
