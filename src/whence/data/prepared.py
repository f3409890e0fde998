"""Prepared folders, read again: every file is checked, since another may have written it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from whence.data.catalog import Catalog
from whence.data.interactions import FORMAT, Interactions
from whence.data.readers.arrow import ParquetTable
from whence.data.readers.source_files import clear_read_errors
from whence.data.readers.values import LATEST
from whence.errors import InputError
from whence.files import MANIFEST, read_json
from whence.reading import check_regular
from whence.text import shortened

FILES = (
    *("items.npy", "offsets.npy", "times.npy", "ratings.npy"),
    *("catalog.parquet", "users.parquet"),
)
READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
NOT_A_HEADER = (ValueError, KeyError, TypeError, SyntaxError, RecursionError, TokenError)
"""What NumPy raises for headers that it did not write."""


def read_prepared(folder: Path) -> Interactions:
    """Return the interactions in a folder that `Interactions.save` wrote."""
    for name in (MANIFEST, *FILES):
        if (folder / name).is_symlink():
            raise _unusable(folder / name, "it is a link, which may lead anywhere")
    manifest = read_json(folder / MANIFEST)
    if type(found := manifest.get("format")) is not int or found != FORMAT:
        raise InputError(
            f"{folder} has data format {shortened(str(found), 40)}, but this version of Whence "
            f"reads format {FORMAT}. Prepare the data again."
        )
    _check_manifest(folder, manifest)
    with clear_read_errors(str(folder)):
        interactions = Interactions(
            items=_array(folder / "items.npy", np.int32),
            offsets=_array(folder / "offsets.npy", np.int64),
            times=_optional(folder / "times.npy", np.int64),
            ratings=_optional(folder / "ratings.npy", np.float32),
            catalog=Catalog(read_id_table(folder / "catalog.parquet", "item")),
            users=read_id_table(folder / "users.parquet", "user"),
            origin={"source": str(folder.absolute())},
            verb=manifest["verb"],
            filters=tuple(manifest["filters"]),
        )
    if problem := _inconsistency(interactions):
        raise _unusable(folder, problem)
    if interactions.content_hash != manifest["hash"]:
        raise InputError(f"{folder} has changed since it was prepared. Prepare it again.")
    return interactions


def _check_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    filters = manifest.get("filters")
    sound = (
        isinstance(manifest.get("hash"), str)
        and isinstance(manifest.get("verb"), str)
        and isinstance(filters, list)
        and all(
            isinstance(one, dict)
            and isinstance(one.get("what"), str)
            and type(one.get("dropped")) is int
            for one in filters
        )
    )
    if not sound:
        raise _unusable(folder / MANIFEST, "it lacks a value, or one has a wrong type")


def _array(path: Path, kind: type[np.generic]) -> npt.NDArray[Any]:
    """Return a flat array of this type; its file must have the size that its header announces."""
    check_regular(path)
    with path.open("rb") as file:
        try:
            shape, _, found = READERS[np.lib.format.read_magic(file)](file)
        except NOT_A_HEADER:
            raise _unusable(path, "it is not a NumPy file") from None
        expected = np.dtype(kind)
        if found != expected or len(shape) != 1:
            raise _unusable(path, f"it must hold a list of {expected}")
        count = (path.stat().st_size - file.tell()) // expected.itemsize
        if shape[0] != count or path.stat().st_size != file.tell() + count * expected.itemsize:
            raise _unusable(path, "its size is not that of its values")
        return np.fromfile(file, expected, count)


def _optional(path: Path, kind: type[np.generic]) -> npt.NDArray[Any] | None:
    return _array(path, kind) if path.exists() else None


def read_id_table(path: Path, role: str) -> pa.Table:
    """Return a table with distinct ids in the column `role`, and titles that are texts."""
    file = ParquetTable(path)
    names = file.distinct_names()
    if role not in names:
        raise _unusable(path, f"it has no column '{role}'")
    table = file.read(names, [])
    ids = table[role]
    if not (pa.types.is_integer(ids.type) or pa.types.is_string(ids.type)):
        raise _unusable(path, f"its ids are of type {shortened(str(ids.type), 80)}")
    if ids.null_count or pc.count_distinct(ids).as_py() != len(ids):
        raise _unusable(path, "its ids must be distinct")
    if role == "item" and "title" in names and not pa.types.is_string(table["title"].type):
        raise _unusable(path, "its titles must be texts")
    return table


def _inconsistency(events: Interactions) -> str | None:
    """Return what does not fit together, if anything."""
    items, offsets = events.items, events.offsets
    if not len(items):
        return "it holds no events"
    if not len(offsets) or offsets[0] or offsets[-1] != len(items) or (np.diff(offsets) < 0).any():
        return "offsets.npy does not divide the events among the users"
    if len(events.users) != events.user_count:
        return "users.parquet and offsets.npy are about different numbers of users"
    if items.min() < 0 or items.max() >= events.item_count:
        return "items.npy names items that are not in catalog.parquet"
    for name, values in (("times", events.times), ("ratings", events.ratings)):
        if values is not None and len(values) != len(items):
            return f"{name}.npy and items.npy are about different numbers of events"
    if events.times is not None and events.times.max() >= LATEST:
        return "times.npy holds values that are no times"
    if events.ratings is not None and not np.isfinite(events.ratings).all():
        return "ratings.npy holds values that are no numbers"
    return None


def _unusable(path: Path, problem: str) -> InputError:
    return InputError(f"{path} cannot be used: {problem}. Prepare it again.")
