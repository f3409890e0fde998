"""Session logs, streamed in blocks of whole sessions, with the features of every row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from whence.arrays import Floats32
from whence.errors import InputError
from whence_studies.sessions.csv_stream import BLOCK, FIRST_ROW, CsvStream, first_true
from whence_studies.sessions.schema import (
    CATEGORIES,
    CAUSE,
    CAUSE_COLUMNS,
    CAUSE_WORDS,
    DATE,
    HOUR,
    LENGTH,
    LOG_COLUMNS,
    LOG_FEATURES,
    POSITION,
    SESSION,
    SKIPPED,
    TRACK,
)
from whence_studies.sessions.tracks import MISSING, Tracks

SLOTS: Final = 10
"""Tracks per half; the challenge's sessions have 10 to 20 tracks."""
DAY_ZERO: Final = np.datetime64("2018-07-13").astype(int)
"""Day 0 of the date feature, two days before the first log."""
HOURS: Final = 24


@dataclass(frozen=True, eq=False)
class Sessions:
    """Whole sessions in sequence; session *i* has the rows `offsets[i]:offsets[i + 1]`."""

    ids: pa.Array
    offsets: npt.NDArray[np.int64]
    logged: Floats32
    """`[rows, 44]`: the features in `LOG_FEATURES`."""
    tracks: npt.NDArray[np.int32]
    """Row numbers in the track table."""
    skipped: npt.NDArray[np.bool_]
    causes: npt.NDArray[np.int8] | None = None
    """Cause of each skip or non-skip, as a `Cause`, if known."""

    def __len__(self) -> int:
        return len(self.ids)


def read_sessions(
    path: Path,
    tracks: Tracks,
    slots: int = SLOTS,
    causes: Path | None = None,
    block: int = BLOCK,
) -> Iterator[Sessions]:
    """Yield the sessions of a log, with about `block` bytes of it in memory.

    `causes` is the file of true causes that accompanies a synthetic log.
    """
    stream = CsvStream(path, LOG_COLUMNS, block=block)
    truth = None if causes is None else CauseStream(causes, path, block)
    rest = None
    for row, table in stream.blocks():
        if rest is not None:
            table = pa.concat_tables([rest, table]).unify_dictionaries()
            row -= len(rest)
        table = table.combine_chunks()
        position, length = _order(stream, row, table, slots)
        whole = np.flatnonzero(position == length)
        end = int(whole[-1]) + 1 if len(whole) else 0
        if end:
            why = None if truth is None else truth.of(table[:end])
            yield _sessions(stream, row, table[:end], tracks, why)
        rest = table[end:]
    if rest is not None and len(rest):
        raise _ends_early(stream, row + len(table) - 1, table, len(table) - 1)
    if truth is not None:
        truth.finish()


def _order(
    stream: CsvStream, row: int, table: pa.Table, slots: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the position and length of each row; check that sessions are complete and ordered."""
    position, length = table[POSITION].to_numpy(), table[LENGTH].to_numpy()
    ids = table[SESSION].combine_chunks()
    again = np.concatenate(([False], pc.equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)))
    before, said = np.roll(position, 1), np.roll(length, 1)
    early = ~again & (before != said)
    early[0] = False  # the previous block ended with a complete session
    problems = [
        (length < 2, LENGTH, "a session needs at least 2 tracks, one for each half"),
        (
            length > 2 * slots,
            LENGTH,
            f"the session does not fit into 2 × {slots} slots; raise slots=",
        ),
        (
            again & (length != said),
            LENGTH,
            "the previous row gives another length for this session",
        ),
        (
            again & (position != before + 1),
            POSITION,
            "it does not follow the position in the previous row",
        ),
        (~again & ~early & (position != 1), POSITION, "the session does not start at position 1"),
        (position > length, POSITION, "it exceeds the length of the session"),
    ]
    found = [
        (at, column, problem)
        for wrong, column, problem in problems
        if (at := first_true(wrong)) is not None
    ]
    at, column, problem = min(found, default=(len(table), "", ""))
    ends = first_true(early)
    if ends is not None and ends <= at:
        raise _ends_early(stream, row + ends - 1, table, ends - 1)
    if column:
        raise stream.error(
            row + at, column, f"{table[column][at]} in session '{ids[at]}': {problem}"
        )
    return position, length


def _ends_early(stream: CsvStream, row: int, table: pa.Table, at: int) -> Exception:
    return stream.error(
        row,
        LENGTH,
        f"session '{table[SESSION][at]}' has {table[LENGTH][at]} tracks by this column, but ends "
        f"at {table[POSITION][at]}; a log must hold complete sessions, row by row",
    )


def _sessions(
    stream: CsvStream,
    row: int,
    table: pa.Table,
    tracks: Tracks,
    causes: npt.NDArray[np.int8] | None,
) -> Sessions:
    first = np.flatnonzero(table[POSITION].to_numpy() == 1)
    return Sessions(
        ids=table[SESSION].combine_chunks().take(pa.array(first)),
        offsets=np.append(first, len(table)),
        logged=_features(stream, row, table),
        tracks=_track_numbers(stream, row, table, tracks),
        skipped=table[SKIPPED].to_numpy(),
        causes=causes,
    )


def _features(stream: CsvStream, row: int, table: pa.Table) -> Floats32:
    """Return the rows of a log as numbers: one-hot categories, hours as fractions of a day.

    Dates count from `DAY_ZERO`. An unknown category sets no flag.
    """
    _check_hours(stream, row, table)
    features = np.zeros((len(table), len(LOG_FEATURES)), dtype=np.float32)
    for name in LOG_COLUMNS:
        if name in CATEGORIES:
            words = table[name].combine_chunks()
            kind = pc.index_in(words.dictionary, value_set=pa.array(CATEGORIES[name]))
            kinds = kind.fill_null(MISSING).to_numpy()[words.indices.to_numpy()]
            known = np.flatnonzero(kinds != MISSING)
            first = LOG_FEATURES.index(f"{name}_{CATEGORIES[name][0]}")
            features[known, first + kinds[known]] = 1
        elif name in LOG_FEATURES:
            features[:, LOG_FEATURES.index(name)] = table[name].cast(pa.int32()).to_numpy()
    features[:, LOG_FEATURES.index(HOUR)] /= HOURS
    features[:, LOG_FEATURES.index(DATE)] -= DAY_ZERO
    return features


def _check_hours(stream: CsvStream, row: int, table: pa.Table) -> None:
    hours = table[HOUR].to_numpy()
    wrong = first_true((hours < 0) | (hours >= HOURS))
    if wrong is not None:
        raise stream.error(
            row + wrong, HOUR, f"{hours[wrong]} is not an hour from 0 to {HOURS - 1}"
        )


def _track_numbers(
    stream: CsvStream, row: int, table: pa.Table, tracks: Tracks
) -> npt.NDArray[np.int32]:
    ids = table[TRACK].combine_chunks()
    numbers: npt.NDArray[np.int32] = tracks.numbers(ids.dictionary)[ids.indices.to_numpy()]
    absent = first_true(numbers == MISSING)
    if absent is not None:
        raise stream.error(
            row + absent,
            TRACK,
            f"track '{ids[absent].as_py()}' is in none of the track feature files; pass all of "
            "them",
        )
    return numbers


class CauseStream:
    """The causes of a log's rows, read in step with the log."""

    def __init__(self, path: Path, log: Path, block: int = BLOCK) -> None:
        self.log = log
        self.stream = CsvStream(path, CAUSE_COLUMNS, block=block)
        self.blocks = self.stream.blocks()
        self.row = FIRST_ROW
        """Number of the first unused row."""
        self.rest = pa.table({name: pa.array([], kind) for name, kind in CAUSE_COLUMNS.items()})

    def of(self, rows: pa.Table) -> npt.NDArray[np.int8]:
        """Return the causes of the next rows of the log."""
        while len(self.rest) < len(rows) and self._read():
            pass
        mine, self.rest = self.rest[: len(rows)], self.rest[len(rows) :]
        self._check_rows(mine, rows[: len(mine)])
        if len(mine) < len(rows):
            raise self._mismatch(
                len(mine) - 1, f"the causes end here, but {self.log} has more rows"
            )
        causes = self._causes(mine)
        self.row += len(rows)
        return causes

    def finish(self) -> None:
        """Raise if causes are left at the end of the log."""
        if len(self.rest) or self._read():
            raise self._mismatch(0, f"{self.log} ends before this cause")

    def _read(self) -> bool:
        """Read one more block; return whether there was one."""
        _, table = next(self.blocks, (0, None))
        if table is None:
            return False
        self.rest = pa.concat_tables([self.rest, table])
        return True

    def _check_rows(self, mine: pa.Table, rows: pa.Table) -> None:
        same = pc.and_(*(pc.equal(mine[one], rows[one]) for one in (SESSION, POSITION)))
        wrong = first_true(~same.to_numpy())
        if wrong is not None:
            own, expected = (_track_of(table, wrong) for table in (mine, rows))
            raise self._mismatch(wrong, f"this is {own}, but {self.log} has {expected}")

    def _mismatch(self, at: int, problem: str) -> InputError:
        return InputError(
            f"{self.stream.place(self.row + at)}: {problem}. A file of causes must have one row "
            "for each row of its log, in the same order."
        )

    def _causes(self, mine: pa.Table) -> npt.NDArray[np.int8]:
        place = pc.index_in(mine[CAUSE], value_set=CAUSE_WORDS)
        wrong = first_true(place.is_null().to_numpy())
        if wrong is not None:
            raise self.stream.error(
                self.row + wrong,
                CAUSE,
                f"'{mine[CAUSE][wrong]}' is not a cause; use {', '.join(CAUSE_WORDS.to_pylist())}",
            )
        causes: npt.NDArray[np.int8] = place.to_numpy().astype(np.int8)
        return causes


def _track_of(table: pa.Table, at: int) -> str:
    return f"position {table[POSITION][at]} in session '{table[SESSION][at]}'"
