"""Why a track was skipped or not, where that is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from whence.errors import InputError
from whence.sessions.stream import CsvStream, first_true


class Cause(IntEnum):
    """What decided over a skip."""

    PERSISTENCE = 0
    CONTEXT = 1
    MUSIC = 2
    POPULARITY = 3
    CHANCE = 4

    @property
    def word(self) -> str:
        """As files have it."""
        return self.name.lower()


GROUP_OF: Final[Mapping[Cause, str]] = {
    Cause.PERSISTENCE: "interaction",
    Cause.CONTEXT: "context",
    Cause.MUSIC: "music",
    Cause.POPULARITY: "general",
}
"""The group of features that a cause can be read from; chance can be read from none."""
CAUSE: Final = "cause"
"""The column of the file of causes."""


@dataclass(frozen=True, eq=False)
class Causes:
    """One a row of a log."""

    path: Path
    values: npt.NDArray[np.int8]

    def of(self, rows: slice, log: Path) -> npt.NDArray[np.int8]:
        """Those of some rows, counted from 0."""
        if rows.stop > len(self.values):
            raise InputError(f"{self.path} has {len(self.values)} causes, and {log} more rows.")
        return self.values[rows]


def read_causes(path: Path) -> Causes:
    """The causes of a log, all at once: they are one byte each."""
    stream = CsvStream(path, {CAUSE: pa.string()})
    words = pa.array([cause.word for cause in Cause])
    parts = []
    for row, table in stream.blocks():
        place = pc.index_in(table[CAUSE], value_set=words)
        wrong = first_true(place.is_null().to_numpy())
        if wrong is not None:
            raise stream.error(row + wrong, CAUSE, f"'{table[CAUSE][wrong]}' is no cause")
        parts.append(place.to_numpy().astype(np.int8))
    return Causes(path, np.concatenate(parts))
