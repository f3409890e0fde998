"""Batches of sessions in two halves: the skips of the first are known, those of the second not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whence.arrays import Bools, Floats32
from whence.errors import InputError
from whence.memory import row_slices
from whence_studies.sessions.csv_stream import BLOCK
from whence_studies.sessions.logs import SLOTS, Sessions, read_sessions
from whence_studies.sessions.schema import KNOWN_SPANS, LOG_FEATURES, SKIPPED
from whence_studies.sessions.session_files import SessionFiles
from whence_studies.sessions.tracks import Tracks

ABSENT: Final = -2
"""Value of features and labels in slots without a track (Afchar & Hennequin 2020)."""
NO_CAUSE: Final = -1


@dataclass(frozen=True, eq=False)
class SessionBatch:
    """A batch of B sessions; the tracks of both halves fill their slots from the left."""

    known: Floats32
    """`[B, slots, 73]`: features of the first half, laid out by `KNOWN_SPANS`; the paper's A."""
    known_mask: Bools
    """`[B, slots]`: whether a slot of the first half holds a track."""
    upcoming: Floats32
    """`[B, slots, 31]`: features of the second half, by `UPCOMING_SPANS`; the paper's B."""
    upcoming_mask: Bools
    labels: npt.NDArray[np.int8]
    """`[B, slots]`: 1 for skipped and -1 for played, in the second half; the paper's Y."""
    causes: npt.NDArray[np.int8] | None = None
    """`[B, slots]`: causes in the second half, as a `Cause`, if known."""

    def __len__(self) -> int:
        return len(self.known)

    @property
    def skipped(self) -> Bools:
        """`[B, slots]`: whether tracks of the second half were skipped."""
        return np.equal(self.labels, 1)

    @property
    def known_skipped(self) -> Bools:
        """`[B, slots]`: whether tracks of the first half were skipped."""
        return np.equal(self.known[..., LOG_FEATURES.index(SKIPPED)], 1)

    def __getitem__(self, sessions: slice | npt.NDArray[np.int64]) -> SessionBatch:
        chosen: list[Any] = [None if one is None else one[sessions] for one in self.arrays()]
        return SessionBatch(*chosen)

    def arrays(self) -> list[npt.NDArray[Any] | None]:
        """Return the arrays in the order of the fields."""
        return [getattr(self, field.name) for field in fields(self)]


def concat_batches(parts: Sequence[SessionBatch]) -> SessionBatch:
    """Concatenate the sessions of all batches."""
    joined: list[Any] = [
        None if some[0] is None else np.concatenate(some)
        for some in zip(*(part.arrays() for part in parts), strict=True)
    ]
    return SessionBatch(*joined)


def halve_sessions(sessions: Sessions, tracks: Tracks, slots: int = SLOTS) -> SessionBatch:
    """Split sessions in half; a middle track goes to the second half, as in the challenge."""
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
    return SessionBatch(
        known=put(first, np.hstack([sessions.logged[early], music[early]]), ABSENT),
        known_mask=put(first, np.ones(early.sum(), dtype=bool), 0),
        upcoming=put(second, np.hstack([position[late], music[late]]), ABSENT),
        upcoming_mask=put(second, np.ones(late.sum(), dtype=bool), 0),
        labels=put(second, np.where(sessions.skipped[late], 1, -1).astype(np.int8), ABSENT),
        causes=(None if sessions.causes is None else put(second, sessions.causes[late], NO_CAUSE)),
    )


BATCH: Final = 500
"""Sessions per batch, as in Afchar & Hennequin (2020)."""


def batches(
    files: SessionFiles,
    tracks: Tracks,
    size: int = BATCH,
    seed: int | None = None,
    slots: int = SLOTS,
    block: int = BLOCK,
) -> Iterator[SessionBatch]:
    """Yield every session once, `size` at a time; the last batch may be smaller.

    With a `seed`, the logs and the sessions within a block are shuffled. A block has about `block`
    bytes. Use another seed in every epoch for other batches.
    """
    if size < 1 or slots < 1:
        raise InputError(f"Set size and slots to at least 1, not {size} and {slots}.")
    rest: list[SessionBatch] = []
    for batch in _blocks(files, tracks, seed, slots, block):
        together = concat_batches([*rest, batch])
        full = len(together) - len(together) % size
        for some in row_slices(full, size):
            yield together[some]
        rest = [together[full:]] if full < len(together) else []
    yield from rest


def _blocks(
    files: SessionFiles, tracks: Tracks, seed: int | None, slots: int, block: int
) -> Iterator[SessionBatch]:
    rng = None if seed is None else np.random.default_rng(np.random.SeedSequence(seed))
    order = np.arange(len(files.logs)) if rng is None else rng.permutation(len(files.logs))
    for log in order:
        causes = files.causes[log] if files.causes else None
        for sessions in read_sessions(files.logs[log], tracks, slots, causes, block):
            batch = halve_sessions(sessions, tracks, slots)
            yield batch if rng is None else batch[rng.permutation(len(batch))]
