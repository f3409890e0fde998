"""Sessions cut in half: the first half is known with its skips, of the second they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whence.arrays import Bools
from whence_studies.sessions.columns import KNOWN_SPANS, LOGGED, SKIPPED
from whence_studies.sessions.logs import SLOTS, Rows, Sessions
from whence_studies.sessions.tracks import Tracks

ABSENT: Final = -2
"""Stands in slots without a track, for features and labels (Afchar & Hennequin 2020)."""
NO_CAUSE: Final = -1


@dataclass(frozen=True, eq=False)
class Halves:
    """A batch of B sessions; both halves stand at the left of their slots."""

    known: Rows
    """`[B, slots, 73]`: features of the first half, by `KNOWN_SPANS`; the paper's A."""
    known_there: Bools
    """`[B, slots]`: where there is a track."""
    asked: Rows
    """`[B, slots, 31]`: features of the second half, by `ASKED_SPANS`; the paper's B."""
    asked_there: Bools
    labels: npt.NDArray[np.int8]
    """`[B, slots]`: 1 skipped, -1 not, of the second half; the paper's Y."""
    causes: npt.NDArray[np.int8] | None = None
    """`[B, slots]`: of the second half, as a `Cause`, where that is known."""

    def __len__(self) -> int:
        return len(self.known)

    @property
    def skipped(self) -> Bools:
        """`[B, slots]`: whether tracks of the second half were skipped."""
        return np.equal(self.labels, 1)

    @property
    def known_skipped(self) -> Bools:
        """`[B, slots]`: whether tracks of the first half were skipped."""
        return np.equal(self.known[..., LOGGED.index(SKIPPED)], 1)

    def __getitem__(self, sessions: slice | npt.NDArray[np.int64]) -> Halves:
        chosen: list[Any] = [None if one is None else one[sessions] for one in self.arrays()]
        return Halves(*chosen)

    def arrays(self) -> list[npt.NDArray[Any] | None]:
        """In the order of the fields."""
        return [getattr(self, field.name) for field in fields(self)]


def join(parts: Sequence[Halves]) -> Halves:
    """The sessions of all of them, one after another."""
    joined: list[Any] = [
        None if some[0] is None else np.concatenate(some)
        for some in zip(*(part.arrays() for part in parts), strict=True)
    ]
    return Halves(*joined)


def cut_in_half(sessions: Sessions, tracks: Tracks, slots: int = SLOTS) -> Halves:
    """Of an odd number of tracks the middle one is asked about, as in the challenge."""
    lengths = np.diff(sessions.offsets)
    half = np.repeat(lengths // 2, lengths)
    session = np.repeat(np.arange(len(sessions)), lengths)
    place = np.arange(len(session)) - np.repeat(sessions.offsets[:-1], lengths)
    early = place < half
    late = ~early
    first = (session[early], place[early])
    second = (session[late], (place - half)[late])
    count = (len(sessions), slots)

    def put(at: tuple[Any, Any], values: npt.NDArray[Any], empty: int) -> npt.NDArray[Any]:
        slotted = np.full((*count, *values.shape[1:]), empty, dtype=values.dtype)
        slotted[at] = values
        return slotted

    music = tracks.features[sessions.tracks]
    position = sessions.logged[:, KNOWN_SPANS["position"]]
    return Halves(
        known=put(first, np.hstack([sessions.logged[early], music[early]]), ABSENT),
        known_there=put(first, np.ones(early.sum(), dtype=bool), 0),
        asked=put(second, np.hstack([position[late], music[late]]), ABSENT),
        asked_there=put(second, np.ones(late.sum(), dtype=bool), 0),
        labels=put(second, np.where(sessions.skipped[late], 1, -1).astype(np.int8), ABSENT),
        causes=(None if sessions.causes is None else put(second, sessions.causes[late], NO_CAUSE)),
    )
