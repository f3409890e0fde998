"""A prepared folder that somebody changed is refused, whatever its hash says."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from whence.data import Interactions, load
from whence.errors import InputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    events = {"user": [1, 1, 2], "item": [5, 6, 5], "time": [1, 2, 3], "rating": [1.0, 2.0, 3.0]}
    titles = {"title": ["a", "b", "a"]}
    return load(pa.table({**events, **titles})).save(tmp_path / "prepared")


def refused(folder: Path, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        load(folder)
    assert len(str(caught.value)) < 500


def array(name: str, values: Any, kind: Any) -> Callable[[Path], None]:  # noqa: ANN401
    return lambda folder: np.save(folder / name, np.array(values, kind))


def table(name: str, columns: dict[str, Any]) -> Callable[[Path], None]:
    return lambda folder: pq.write_table(pa.table(columns), folder / name)


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "float items": (array("items.npy", [0, 1, 0], np.float64), "must hold a list of int32"),
    "text items": (array("items.npy", ["a", "b", "c"], str), "must hold a list of int32"),
    "square items": (array("items.npy", [[0], [1], [0]], np.int32), "must hold a list of int32"),
    "swapped bytes": (array("items.npy", [0, 1, 0], ">i4"), "must hold a list of int32"),
    "no events": (array("items.npy", [], np.int32), "it holds no events"),
    "item too large": (array("items.npy", [0, 2, 0], np.int32), "not in catalog.parquet"),
    "item below 0": (array("items.npy", [0, -1, 0], np.int32), "not in catalog.parquet"),
    "no offsets": (array("offsets.npy", [], np.int64), "does not divide the events"),
    "falling offsets": (array("offsets.npy", [0, 4, 3], np.int64), "does not divide the events"),
    "late offsets": (array("offsets.npy", [1, 2, 3], np.int64), "does not divide the events"),
    "more offsets": (array("offsets.npy", [0, 1, 2, 3], np.int64), "numbers of users"),
    "few times": (array("times.npy", [1], np.int64), "different numbers of events"),
    "late times": (array("times.npy", [1, 2, 2**62], np.int64), "that are no times"),
    "few ratings": (array("ratings.npy", [1], np.float32), "different numbers of events"),
    "nan": (array("ratings.npy", [1, np.nan, 2], np.float32), "that are no numbers"),
    "no item column": (table("catalog.parquet", {"x": [5, 6]}), "has no column 'item'"),
    "no user column": (table("users.parquet", {"x": [1, 2]}), "has no column 'user'"),
    "equal ids": (table("catalog.parquet", {"item": [5, 5]}), "ids must be distinct"),
    "missing ids": (table("users.parquet", {"user": [1, None]}), "ids must be distinct"),
    "ids of lists": (table("catalog.parquet", {"item": [[5], [6]]}), "ids are of type list"),
    "titles of numbers": (
        table("catalog.parquet", {"item": [5, 6], "title": [1, 2]}),
        "titles must be texts",
    ),
    "other title": (
        table("catalog.parquet", {"item": [5, 6], "title": ["a", "c"]}),
        "has changed since it was prepared",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_content_is_refused(folder: Path, name: str) -> None:
    change, said = CHANGES[name]
    change(folder)
    refused(folder, said)


@pytest.mark.parametrize("announced", [10**15, 4, 2, -3])
def test_a_size_that_is_not_there_is_not_allocated(folder: Path, announced: int) -> None:
    path = folder / "items.npy"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"(3,)", f"({announced},)".encode()))
    assert path.read_bytes() != content
    refused(folder, "items.npy cannot be used: (its size|it is not)")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        b"\x93NUMPY",
        b"\x93NUMPY\x03\x00",
        b"\x93NUMPY\x01\x00\xff\xff{",
        b"\x93NUMPY\x01\x00\x06\x00{'a': \n",
        b"\x93NUMPY\x01\x00\x03\x00((\n",
    ],
)
def test_what_is_no_array_is_refused(folder: Path, content: bytes) -> None:
    (folder / "items.npy").write_bytes(content)
    refused(folder, "it is not a NumPy file")


def test_objects_are_not_loaded(folder: Path) -> None:
    np.save(folder / "items.npy", np.array([Path("x")] * 3, dtype=object), allow_pickle=True)
    refused(folder, "must hold a list of int32")


ODD: list[object] = [None, True, {}]
WRONG: dict[str, list[object]] = {
    "format": [*ODD, "1", 5, [1]],
    "hash": [*ODD, 5, []],
    "verb": [*ODD, 5, ["chose"]],
    "filters": [*ODD, "x", ["x"], [{"what": 1, "dropped": 1}], [{"what": "x"}]],
}


@pytest.mark.parametrize(("key", "value"), [(key, one) for key in WRONG for one in WRONG[key]])
def test_wrong_types_in_the_manifest_are_refused(folder: Path, key: str, value: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    refused(folder, "manifest.json cannot be used|has data format")


@pytest.mark.parametrize("name", ["items.npy", "times.npy", "catalog.parquet", "users.parquet"])
def test_links_pipes_and_folders_are_refused(folder: Path, name: str, tmp_path: Path) -> None:
    path = folder / name
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    refused(folder, f"{name} cannot be used: it is a link")
    path.unlink()
    os.mkfifo(path)
    refused(folder, f"{name} is not a regular file")
    path.unlink()
    path.mkdir()
    refused(folder, f"{name} is a folder")


def test_a_sound_folder_is_read(folder: Path) -> None:
    data: Interactions = load(folder)
    assert data.items.tolist() == [0, 1, 0]
    assert data.times is not None
    assert data.times.tolist() == [1, 2, 3]
