"""Why a track was skipped or not, where that is known."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from whence.errors import InputError
from whence_studies.sessions.columns import POSITION, SESSION
from whence_studies.sessions.stream import BLOCK, FIRST_ROW, CsvStream, first_true


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
COLUMNS: Final = {SESSION: pa.string(), POSITION: pa.int32(), CAUSE: pa.string()}
"""Of that file: whose cause it is, and the cause."""
WORDS: Final = pa.array([cause.word for cause in Cause])


class CauseStream:
    """The causes of a log's rows, read along with the log."""

    def __init__(self, path: Path, log: Path, block: int = BLOCK) -> None:
        self.log = log
        self.stream = CsvStream(path, COLUMNS, block=block)
        self.blocks = self.stream.blocks()
        self.row = FIRST_ROW
        """Of the first row that is not used yet."""
        self.rest = pa.table({name: pa.array([], kind) for name, kind in COLUMNS.items()})

    def of(self, rows: pa.Table) -> npt.NDArray[np.int8]:
        """Those of the next rows of the log."""
        while len(self.rest) < len(rows) and self._read():
            pass
        mine, self.rest = self.rest[: len(rows)], self.rest[len(rows) :]
        self._refuse_others(mine, rows[: len(mine)])
        if len(mine) < len(rows):
            raise self._unlike(len(mine) - 1, f"the causes end here, and {self.log} has more rows")
        causes = self._causes(mine)
        self.row += len(rows)
        return causes

    def finish(self) -> None:
        """Raise if causes are left when the log has ended."""
        if len(self.rest) or self._read():
            raise self._unlike(0, f"{self.log} ends before this cause")

    def _read(self) -> bool:
        """One block more, if there is one."""
        _, table = next(self.blocks, (0, None))
        if table is None:
            return False
        self.rest = pa.concat_tables([self.rest, table])
        return True

    def _refuse_others(self, mine: pa.Table, rows: pa.Table) -> None:
        same = pc.and_(*(pc.equal(mine[one], rows[one]) for one in (SESSION, POSITION)))
        wrong = first_true(~same.to_numpy())
        if wrong is not None:
            own, expected = (_track_of(table, wrong) for table in (mine, rows))
            raise self._unlike(wrong, f"this is of {own}, where {self.log} has {expected}")

    def _unlike(self, at: int, problem: str) -> InputError:
        return InputError(
            f"{self.stream.place(self.row + at)}: {problem}; a file of causes has a row for each "
            "of its log, in the same order."
        )

    def _causes(self, mine: pa.Table) -> npt.NDArray[np.int8]:
        place = pc.index_in(mine[CAUSE], value_set=WORDS)
        wrong = first_true(place.is_null().to_numpy())
        if wrong is not None:
            raise self.stream.error(
                self.row + wrong,
                CAUSE,
                f"'{mine[CAUSE][wrong]}' is no cause; say {', '.join(WORDS.to_pylist())}",
            )
        causes: npt.NDArray[np.int8] = place.to_numpy().astype(np.int8)
        return causes


def _track_of(table: pa.Table, at: int) -> str:
    return f"position {table[POSITION][at]} in session '{table[SESSION][at]}'"
