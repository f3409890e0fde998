"""The user–item–time table as flat arrays, which a prepared folder holds on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from whence.data.catalog import Catalog, index_of_id
from whence.errors import InputError
from whence.files import MANIFEST, new_folder, write_array, write_json

FORMAT = 1
UNKNOWN_TIME = np.iinfo(np.int64).min
"""Marks an unknown time in data whose order is known."""

DUPLICATES = "rows equal to another in user, item, time and rating"


@dataclass(frozen=True, eq=False)
class Times:
    """Points in time as integer ticks since 1970."""

    ticks: npt.NDArray[np.int64]
    per_second: int = 1

    def __len__(self) -> int:
        """Return the number of points in time."""
        return len(self.ticks)


class Counts(NamedTuple):
    """The numbers of items and users that a model is built for."""

    items: int
    users: int


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Events sorted by user, then time (in seconds), then the order they came in.

    The events of user `u` are those from `offsets[u]` up to `offsets[u + 1]`.
    """

    items: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64] | None
    ratings: npt.NDArray[np.float32] | None
    catalog: Catalog
    users: pa.Table
    origin: Mapping[str, Any] = field(default_factory=dict)
    """The source of the data, complete enough to `load` them again."""
    verb: str = "chose"
    """What users do with items: watched, bought, played."""
    filters: tuple[Mapping[str, Any], ...] = ()
    """Each filter that was applied, and how many events it dropped."""

    @staticmethod
    def from_columns(
        user: pa.ChunkedArray,
        item: pa.ChunkedArray,
        time: Times | None = None,
        rating: npt.NDArray[np.float32] | None = None,
        *,
        order: npt.NDArray[np.int64] | None = None,
        title: pa.ChunkedArray | None = None,
        keep_duplicates: bool = True,
        origin: Mapping[str, Any] | None = None,
        verb: str = "chose",
    ) -> Interactions:
        """Return interactions from columns of equal length, whose rows may be in any order.

        The events of a user are sorted by `order`, or else by `time`; ties stay in row order.
        Fractions of a second count for sorting and are then dropped. An item takes its title from
        its first row. `keep_duplicates` decides about rows that are equal in user, item, time and
        rating. Without times, such rows may be repeated events, so all are kept.
        """
        _check_columns(user, item, time, rating, order, title)
        user_codes, user_ids = _encode(user)
        item_codes, item_ids = _encode(item)
        features = {}
        if title is not None:
            rows_of_items = _first_rows(item_codes, len(item_ids))
            features["title"] = title.take(rows_of_items).cast(pa.string())
        rank = order if order is not None else None if time is None else time.ticks
        rows = _sorted_rows(user_codes, rank)
        filters: tuple[Mapping[str, Any], ...] = ()
        if time is not None and not keep_duplicates:
            repeated = _duplicates(rows, user_codes, time.ticks, item_codes, rating)
            filters = ({"what": DUPLICATES, "dropped": int(repeated.sum())},)
            rows = rows[~repeated]
        counts = np.bincount(user_codes[rows], minlength=len(user_ids))
        return Interactions(
            items=item_codes[rows],
            offsets=_offsets(counts),
            times=None if time is None else _seconds(time, rows),
            ratings=None if rating is None else rating[rows],
            catalog=Catalog(pa.table({"item": item_ids, **features})),
            users=pa.table({"user": user_ids}),
            origin=origin or {},
            verb=verb,
            filters=filters,
        )

    def select(self, kept: npt.NDArray[np.bool_], what: str) -> Interactions:
        """Return these events with the users and items that still have one; `what` says why."""
        users = self.user_of_event()[kept]
        per_user = np.bincount(users, minlength=self.user_count)
        per_item = np.bincount(self.items[kept], minlength=self.item_count)
        if not len(users):
            raise InputError(f"The filters left no events ({what}). Relax them.")
        new_item = (np.cumsum(per_item > 0) - 1).astype(np.int32)
        return replace(
            self,
            items=new_item[self.items[kept]],
            offsets=_offsets(per_user[per_user > 0]),
            times=None if self.times is None else self.times[kept],
            ratings=None if self.ratings is None else self.ratings[kept],
            catalog=Catalog(self.catalog.table.filter(pa.array(per_item > 0))),
            users=self.users.filter(pa.array(per_user > 0)),
            filters=(*self.filters, {"what": what, "dropped": int((~kept).sum())}),
        )

    def user_of_event(self) -> npt.NDArray[np.int32]:
        """Return the user of every event."""
        return np.repeat(np.arange(self.user_count, dtype=np.int32), np.diff(self.offsets))

    def pairs(self) -> npt.NDArray[np.int64]:
        """Return one number per event for its user and item, ordered by user, then item."""
        return self.user_of_event() * np.int64(self.item_count) + self.items

    @property
    def user_count(self) -> int:
        """The number of users."""
        return len(self.offsets) - 1

    @property
    def item_count(self) -> int:
        """The number of items in the catalog."""
        return len(self.catalog)

    @property
    def counts(self) -> Counts:
        """The sizes that a model is built for."""
        return Counts(self.item_count, self.user_count)

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.items)

    def __repr__(self) -> str:
        first, last = self.span()
        when = f", {first} to {last}" if first else ""
        return (
            f"Interactions: {self.user_count:,} users, {self.item_count:,} items, {len(self):,} "
            f"events{when}"
        )

    def span(self) -> tuple[str | None, str | None]:
        """Return the first and the last known day."""
        if self.times is None or not (known := self.times[self.times != UNKNOWN_TIME]).size:
            return None, None
        return day(known.min()), day(known.max())

    def find_user(self, raw: object) -> int:
        """Return the index of the user with this raw id."""
        index = index_of_id(self.users["user"], raw)
        if index is None:
            some = ", ".join(str(one) for one in self.users["user"].slice(0, 3).to_pylist())
            raise InputError(f"No user has the id '{raw}'. The first ids in the data are {some}.")
        return index

    def history(self, user: int) -> npt.NDArray[np.int32]:
        """Return all items of one user, oldest first."""
        return self.items[self.offsets[user] : self.offsets[user + 1]]

    @cached_property
    def content_hash(self) -> str:
        """The sha256 of events, ids and features, independent of the file format they came from."""
        return self._hash_with(self.catalog.table, self.users)

    @cached_property
    def event_hash(self) -> str:
        """The sha256 of events and ids, without titles and features, which may change."""
        return self._hash_with(self.catalog.table.select(["item"]), self.users.select(["user"]))

    def _hash_with(self, *tables: pa.Table) -> str:
        digest = hashlib.sha256()
        for array in (self.items, self.offsets, self.times, self.ratings):
            digest.update(b"absent" if array is None else array.tobytes())
        for table in tables:
            for name in sorted(table.column_names):
                digest.update(f"\0{name}\0".encode())
                digest.update("\n".join(map(str, table[name].to_pylist())).encode())
        return digest.hexdigest()

    def save(self, folder: Path | str, overwrite: bool = False) -> Path:
        """Write a prepared folder; if that fails, nothing is left behind."""
        with new_folder(Path(folder), overwrite) as partial:
            self.write_files(partial)
        return Path(folder)

    def write_files(self, folder: Path) -> None:
        """Write the files of a prepared folder into an empty folder."""
        write_array(folder / "items.npy", self.items)
        write_array(folder / "offsets.npy", self.offsets)
        if self.times is not None:
            write_array(folder / "times.npy", self.times)
        if self.ratings is not None:
            write_array(folder / "ratings.npy", self.ratings)
        pq.write_table(self.catalog.table, folder / "catalog.parquet")
        pq.write_table(self.users, folder / "users.parquet")
        write_json(folder / MANIFEST, self._manifest())

    def _manifest(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "hash": self.content_hash,
            "users": self.user_count,
            "items": self.item_count,
            "events": len(self),
            "filters": [dict(one) for one in self.filters],
            "origin": dict(self.origin),
            "verb": self.verb,
        }


def day(seconds: int) -> str:
    """Return the date of a time in seconds since 1970."""
    return str(np.datetime64(int(seconds), "s").astype("datetime64[D]"))


def _check_columns(user: pa.ChunkedArray, item: pa.ChunkedArray, *others: Sized | None) -> None:
    for column in (item, *others):
        if column is not None and len(column) != len(user):
            raise InputError(
                f"The columns have different lengths: {len(user)} and {len(column)} rows."
            )
    if user.null_count or item.null_count:
        raise InputError("Every event needs a user and an item, but some lack one.")


def _encode(raw: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """Return codes 0, 1, … in order of first appearance, and the raw value of each code."""
    if not pa.types.is_dictionary(raw.type):
        raw = raw.dictionary_encode()
    chunks = unified(raw).chunks
    if not chunks:
        return np.zeros(0, np.int32), pa.array([], raw.type.value_type)
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in chunks])
    return codes.astype(np.int32, copy=False), chunks[-1].dictionary


def unified(encoded: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the column with one dictionary for all its chunks."""
    chunks = encoded.chunks
    if all(chunk.dictionary.equals(chunks[0].dictionary) for chunk in chunks[1:]):
        return encoded
    return encoded.unify_dictionaries()


def _sorted_rows(
    user: npt.NDArray[np.int32], rank: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.int64]:
    """Return the rows sorted by user, then rank, then row."""
    if rank is None or not len(rank):
        return np.argsort(user, kind="stable")
    first, last = int(rank.min()), int(rank.max())
    if (int(user.max()) + 1) * (last - first + 1) >= 2**63:
        return np.lexsort((rank, user))
    # One sort of one key is three times faster than numpy's sort by two.
    return np.argsort(user * np.int64(last - first + 1) + (rank - first), kind="stable")


def _duplicates(
    rows: npt.NDArray[np.int64],
    user: npt.NDArray[np.int32],
    ticks: npt.NDArray[np.int64],
    item: npt.NDArray[np.int32],
    rating: npt.NDArray[np.float32] | None,
) -> npt.NDArray[np.bool_]:
    """Return which of the sorted rows equal an earlier one in every column.

    Only neighbours with the same time can be equal, so only those are compared.
    """
    tied = (np.diff(ticks[rows]) == 0) & (np.diff(user[rows]) == 0)
    moment = np.concatenate(([0], np.cumsum(~tied)))
    near = np.flatnonzero(np.append(tied, False) | np.insert(tied, 0, False))
    keys = [item[rows[near]], moment[near]]
    if rating is not None:
        keys.insert(0, rating[rows[near]])
    order = np.lexsort(keys)
    same = np.all([np.diff(key[order]) == 0 for key in keys], axis=0)
    repeated = np.zeros(len(rows), dtype=bool)
    repeated[near[order[1:][same]]] = True
    return repeated


def _first_rows(codes: npt.NDArray[np.int32], count: int) -> pa.Array:
    """Return the first row of each code."""
    first = np.empty(count, dtype=np.int64)
    # The last write to an index counts, so the rows are written backwards.
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return pa.array(first)


def _offsets(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate(([0], counts.cumsum())).astype(np.int64)


def _seconds(time: Times, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    ticks = time.ticks[rows]
    if time.per_second == 1:
        return ticks
    return np.where(ticks == UNKNOWN_TIME, UNKNOWN_TIME, ticks // time.per_second)
