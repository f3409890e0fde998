"""The user–item–time table as flat arrays, and the folder it is prepared into."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from whence.data.catalog import Catalog, index_of_id
from whence.errors import InputError
from whence.files import MANIFEST, new_folder, read_json, write_json

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Interactions:
    """Events sorted by user, then time, then the order they came in.

    The events of user `u` are those from `offsets[u]` up to `offsets[u + 1]`.
    """

    items: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64] | None
    ratings: npt.NDArray[np.float32] | None
    catalog: Catalog
    users: pa.Table
    origin: Mapping[str, Any] = field(default_factory=dict)
    """Where the data came from, enough to `load` them again."""
    verb: str = "chose"
    """What a user did with an item, for sentences: watched, bought, played."""

    @staticmethod
    def from_columns(
        user: pa.ChunkedArray,
        item: pa.ChunkedArray,
        time: npt.NDArray[np.int64] | npt.NDArray[np.float64] | None = None,
        rating: npt.NDArray[np.float32] | None = None,
        item_features: Mapping[str, pa.ChunkedArray] | None = None,
        origin: Mapping[str, Any] | None = None,
        verb: str = "chose",
    ) -> Interactions:
        """From columns of equal length, in any row order; without times the row order counts.

        Times are seconds, whose fractions decide the order and are then let go. `item_features`
        are columns too; an item takes them from the first row it appears in.
        """
        for column in (user, item, time, rating, *(item_features or {}).values()):
            if column is not None and len(column) != len(user):
                raise InputError(f"Columns of {len(user)} and {len(column)} rows do not match.")
        if user.null_count or item.null_count:
            raise InputError("Every event needs a user and an item; some have none.")
        user_codes, user_ids = _encode(user)
        item_codes, item_ids = _encode(item)
        order = np.lexsort((user_codes,) if time is None else (time, user_codes))
        counts = np.bincount(user_codes, minlength=len(user_ids))
        first_row = pa.array(np.unique(item_codes, return_index=True)[1])
        features = {name: column.take(first_row) for name, column in (item_features or {}).items()}
        return Interactions(
            items=item_codes[order],
            offsets=np.concatenate(([0], counts.cumsum())).astype(np.int64),
            times=None if time is None else np.floor(time[order]).astype(np.int64),
            ratings=None if rating is None else rating[order],
            catalog=Catalog(pa.table({"item": item_ids, **features})),
            users=pa.table({"user": user_ids}),
            origin=origin or {},
            verb=verb,
        )

    @property
    def user_count(self) -> int:
        """How many users."""
        return len(self.offsets) - 1

    @property
    def item_count(self) -> int:
        """How many items the catalog has."""
        return len(self.catalog)

    def __len__(self) -> int:
        """How many events."""
        return len(self.items)

    def find_user(self, raw: object) -> int:
        """The index of the user with this raw id."""
        index = index_of_id(self.users["user"], raw)
        if index is None:
            some = ", ".join(str(one) for one in self.users["user"].slice(0, 3).to_pylist())
            raise InputError(f"No user has the id '{raw}'; the first ids here are {some}.")
        return index

    def history(self, user: int) -> npt.NDArray[np.int32]:
        """All items of one user, oldest first."""
        return self.items[self.offsets[user] : self.offsets[user + 1]]

    @cached_property
    def content_hash(self) -> str:
        """One sha256 over the events, the ids and the features; the same from any file form."""
        digest = hashlib.sha256()
        for array in (self.items, self.offsets, self.times, self.ratings):
            digest.update(b"absent" if array is None else array.tobytes())
        for table in (self.catalog.table, self.users):
            for name in sorted(table.column_names):
                digest.update(f"\0{name}\0".encode())
                digest.update("\n".join(map(str, table[name].to_pylist())).encode())
        return digest.hexdigest()

    def save(self, folder: Path | str, overwrite: bool = False) -> Path:
        """Write the prepared folder, whole or not at all."""
        with new_folder(Path(folder), overwrite) as partial:
            np.save(partial / "items.npy", self.items)
            np.save(partial / "offsets.npy", self.offsets)
            if self.times is not None:
                np.save(partial / "times.npy", self.times)
            if self.ratings is not None:
                np.save(partial / "ratings.npy", self.ratings)
            pq.write_table(self.catalog.table, partial / "catalog.parquet")
            pq.write_table(self.users, partial / "users.parquet")
            write_json(partial / MANIFEST, self._manifest())
        return Path(folder)

    def _manifest(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "hash": self.content_hash,
            "users": self.user_count,
            "items": self.item_count,
            "events": len(self),
            "filters": [],
            "origin": dict(self.origin),
            "verb": self.verb,
        }


def read_prepared(folder: Path) -> Interactions:
    """A folder written by `Interactions.save`."""
    manifest = read_json(folder / MANIFEST)
    if manifest.get("format") != FORMAT:
        raise InputError(
            f"{folder} holds data of format {manifest.get('format')}, and this version of Whence "
            f"reads format {FORMAT}; prepare it again."
        )
    try:
        interactions = Interactions(
            items=np.load(folder / "items.npy", allow_pickle=False),
            offsets=np.load(folder / "offsets.npy", allow_pickle=False),
            times=_load_optional(folder / "times.npy"),
            ratings=_load_optional(folder / "ratings.npy"),
            catalog=Catalog(pq.read_table(folder / "catalog.parquet")),
            users=pq.read_table(folder / "users.parquet"),
            origin={"source": str(folder.absolute())},
            verb=manifest["verb"],
        )
        expected = manifest["hash"]
    except (OSError, ValueError, KeyError, json.JSONDecodeError) as broken:
        raise InputError(f"{folder} cannot be read ({broken}); prepare it again.") from None
    if interactions.content_hash != expected:
        raise InputError(f"{folder} has changed since it was prepared; prepare it again.")
    return interactions


def _load_optional(path: Path) -> npt.NDArray[Any] | None:
    return np.load(path, allow_pickle=False) if path.exists() else None


def _encode(raw: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """Codes 0, 1, … in order of first appearance, and the raw value of each code."""
    encoded = pa.chunked_array(raw).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy().astype(np.int32, copy=False), encoded.dictionary
