"""Published negatives: 99 items per test event, among which several papers rank its item.

He et al. (2017) published them for their test events of MovieLens 1M. Each test event is the last
of its user. If a user's last events share a second, `ml-1m` and the papers may order them
differently; `ml-1m-ncf` has the order of the papers.
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
from whence.data.readers.source_files import clear_read_errors, open_bytes, read_all
from whence.data.readers.tabular import ReadOptions
from whence.errors import InputError

NEGATIVES: Final = 99
"""The number of negatives for each test event."""
UNKNOWN: Final = -1
_READ: WeakKeyDictionary[Interactions, PublishedNegatives] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class PublishedNegatives:
    """By user: the item of the test event and its negatives; −1 if it is not in the data."""

    source: str
    targets: Ints
    """`[users]`."""
    items: Ints
    """`[users, 99]`."""

    def fits(self, cases: Cases) -> bool:
        """Return whether negatives are published for all of these cases."""
        rows = cases.users
        return bool((self.targets[rows] == cases.targets).all() and (self.items[rows] >= 0).all())

    def of(self, cases: Cases) -> Ints:
        """Return the negatives of these test events: `[B, 99]`.

        In the published file a few items are among their own negatives; ranking skips those.
        """
        others = int((self.targets[cases.users] != cases.targets).sum())
        if others:
            raise InputError(
                f"No negatives are published for {others:,} of the {len(cases):,} events. Use the "
                "test events of ml-1m-ncf with the split last-one."
            )
        missing = int((self.items[cases.users] < 0).sum())
        if missing:
            raise InputError(
                f"{missing:,} of the published negatives are not among the items of these data. "
                f"Use {self.source} without filters."
            )
        found: Ints = self.items[cases.users]
        return found


def published_negatives(interactions: Interactions) -> PublishedNegatives:
    """Return the negatives of a named dataset, or raise if there are none."""
    source, file = _place(interactions)
    if file is None:
        known = [name for name, one in DATASETS.items() if any(i.negatives for i in one.layouts)]
        raise InputError(f"No negatives are published for {source}. Use one of {', '.join(known)}.")
    found = find_negatives(interactions)
    if found is None:
        raise InputError(
            f"The negatives published for {source} are not here. Put {file} into "
            f"{data_folders()[0]}."
        )
    return found


def find_negatives(interactions: Interactions) -> PublishedNegatives | None:
    """Return the negatives if they are here; they are read once."""
    if interactions not in _READ:
        source, file = _place(interactions)
        path = None if file is None else find_file(file)
        if path is None:
            return None
        _READ[interactions] = _read(interactions, source, path)
    return _READ[interactions]


def _place(interactions: Interactions) -> tuple[str, str | None]:
    """Return the name of the data, and the path of their published negatives, if any."""
    source = str(interactions.origin.get("source", "data in memory"))
    layout = layout_here(DATASETS[source]) if source in DATASETS else None
    return source, None if layout is None else layout.negatives


def _read(interactions: Interactions, source: str, path: Path) -> PublishedNegatives:
    with clear_read_errors(str(path)):
        try:
            raw = _translated(path) if _has_header(path) else _release(path)
            if raw.shape[1] != 2 + NEGATIVES:
                raise ValueError(f"{raw.shape[1] - 2} negatives per test event")
        except NOT_AS_PUBLISHED as problem:
            raise InputError(
                f"{path} does not hold {NEGATIVES} negatives for every test event ({problem}). "
                "Download it again."
            ) from None
    user = _numbers(raw[:, 0], interactions.users["user"])
    items = _numbers(raw[:, 1:], interactions.catalog.table["item"])
    known = user >= 0
    by_user = np.full((interactions.user_count, 1 + NEGATIVES), UNKNOWN)
    by_user[user[known]] = items[known]
    return PublishedNegatives(source, by_user[:, 0], by_user[:, 1:])


def _has_header(path: Path) -> bool:
    """Return whether this is not the publisher's own file, which starts with a bracket."""
    with open_bytes(path) as content:
        return bool(content.read(1) != b"(")


def _release(path: Path) -> Ints:
    """Read lines of `(user,item)` and negatives, separated by tabs, as raw ids `[U, 101]`."""
    lines = read_all(path).translate(bytes.maketrans(b"(),", b"   ")).splitlines()
    return np.array([line.split() for line in lines]).astype(np.int64)


def _translated(path: Path) -> Ints:
    """Read the same from columns `user_id`, `movie_id` and `negatives`, separated by blanks."""
    table = open_tabular(path, ReadOptions()).read(
        ["user_id", "movie_id", "negatives"], ["negatives"]
    )
    user, item = (table[name].to_numpy().astype(np.int64) for name in ("user_id", "movie_id"))
    negatives = [line.split() for line in table["negatives"].to_pylist()]
    return np.column_stack((user, item, np.array(negatives).astype(np.int64)))


def _numbers(raw: Ints, ids: pa.ChunkedArray) -> Ints:
    """Return the row of each id in the shape of `raw`, or −1 if it is not there."""
    places = pc.index_in(pa.array(raw.ravel()).cast(ids.type), value_set=ids.combine_chunks())
    return np.asarray(pc.fill_null(places, UNKNOWN), np.int64).reshape(raw.shape)
