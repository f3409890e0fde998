"""Track features: one row per track, standardised over all tracks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from whence.errors import InputError
from whence_studies.sessions.csv_stream import BLOCK, FIRST_ROW, CsvStream, first_true
from whence_studies.sessions.schema import MODE, TRACK_COLUMNS, TRACK_FEATURES, TRACK_ID

MODES: Final = ("minor", "major")
LARGEST: Final = float(np.finfo(np.float32).max)
"""Features are stored in single precision."""
MISSING: Final = -1
"""Row number of a track that is not in the table."""


@dataclass(frozen=True, eq=False)
class Tracks:
    """The tracks with their standardised features."""

    ids: pa.ChunkedArray
    features: npt.NDArray[np.float32]
    """`[tracks, 29]` in the order of `TRACK_FEATURES`; 0 is the mean and marks a missing value."""
    means: npt.NDArray[np.float64]
    spreads: npt.NDArray[np.float64]
    """Standard deviations with ddof 1, as in the code of Afchar & Hennequin (2020)."""

    def __len__(self) -> int:
        return len(self.ids)

    def numbers(self, ids: pa.Array) -> npt.NDArray[np.int32]:
        """Return the row numbers of distinct ids, `MISSING` for unknown ones."""
        place = pc.index_in(self.ids, value_set=ids)
        found = place.is_valid().to_numpy()
        numbers = np.full(len(ids), MISSING, dtype=np.int32)
        numbers[place.drop_null().to_numpy()] = np.flatnonzero(found)
        return numbers


def read_tracks(paths: Sequence[Path], block: int = BLOCK) -> Tracks:
    """Read the tracks of all files and standardise their features together."""
    if not paths:
        raise InputError("Pass at least one file of track features.")
    ids: list[pa.Array] = []
    parts: list[npt.NDArray[np.float32]] = []
    firsts: dict[int, CsvStream] = {}
    for path in paths:
        stream = CsvStream(path, TRACK_COLUMNS, frozenset(TRACK_FEATURES), block)
        firsts[sum(map(len, ids))] = stream
        for row, table in stream.blocks():
            ids += table[TRACK_ID].chunks
            parts.append(_numbers(stream, row, table))
    known = pa.chunked_array(ids, pa.string())
    _check_duplicates(known, firsts)
    features = np.concatenate(parts) if parts else np.empty((0, len(TRACK_FEATURES)), np.float32)
    means, spreads = _standardise(features)
    return Tracks(known, features, means, spreads)


def _numbers(stream: CsvStream, row: int, table: pa.Table) -> npt.NDArray[np.float32]:
    """Return one column per feature, with NaN for missing values."""
    numbers = np.empty((len(table), len(TRACK_FEATURES)), dtype=np.float32)
    for place, name in enumerate(TRACK_FEATURES):
        column = _mode(stream, row, table[name]) if name == MODE else table[name]
        values = column.to_numpy()
        wrong = first_true(np.abs(values) > LARGEST)
        if wrong is not None:
            raise stream.error(
                row + wrong, name, f"{column[wrong]} is not a number between ±{LARGEST:.2g}"
            )
        numbers[:, place] = values
    return numbers


def _mode(stream: CsvStream, row: int, words: pa.ChunkedArray) -> pa.ChunkedArray:
    """Encode major as 1 and minor as 0."""
    place = pc.index_in(words, value_set=pa.array(MODES))
    wrong = first_true(place.is_null().to_numpy() & words.is_valid().to_numpy())
    if wrong is not None:
        raise stream.error(row + wrong, MODE, f"'{words[wrong]}' is neither major nor minor")
    return place.cast(pa.float64())


def _check_duplicates(ids: pa.ChunkedArray, firsts: Mapping[int, CsvStream]) -> None:
    """Raise if a track occurs twice; `firsts` maps the number of a file's first track to it."""
    if pc.count_distinct(ids).as_py() == len(ids):
        return
    codes = ids.combine_chunks().dictionary_encode().indices.to_numpy()
    earliest = np.unique(codes, return_index=True)[1]
    twice = int(np.setdiff1d(np.arange(len(ids)), earliest)[0])
    before = int(earliest[codes[twice]])
    stream, row = _row_of(twice, firsts)
    other, there = _row_of(before, firsts)
    raise stream.error(
        row,
        TRACK_ID,
        f"'{ids[twice]}' is already in {other.place(there)}; a track may have only one row in all "
        "files",
    )


def _row_of(track: int, firsts: Mapping[int, CsvStream]) -> tuple[CsvStream, int]:
    """Return the file and row of the track with that number."""
    first = max(one for one in firsts if one <= track)
    return firsts[first], track - first + FIRST_ROW


def _standardise(
    features: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Standardise each feature in place; missing values become 0."""
    means, spreads = np.zeros(features.shape[1]), np.ones(features.shape[1])
    for place, column in enumerate(features.T):
        there = column[~np.isnan(column)].astype(np.float64)
        if len(there):
            means[place] = there.mean()
        if len(there) > 1 and there.std() > 0:
            spreads[place] = there.std(ddof=1)
        column[:] = np.nan_to_num((column - means[place]) / spreads[place])
    return means, spreads
