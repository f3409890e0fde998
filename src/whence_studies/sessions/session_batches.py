"""Batches of a fixed number of sessions from any number of logs, one block of one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from whence.errors import InputError
from whence.memory import row_slices
from whence_studies.sessions.halves import Halves, cut_in_half, join
from whence_studies.sessions.logs import SLOTS, read_sessions
from whence_studies.sessions.session_files import SessionFiles
from whence_studies.sessions.stream import BLOCK
from whence_studies.sessions.tracks import Tracks

BATCH: Final = 500
"""Sessions at a time, as Afchar & Hennequin (2020) have it."""


def batches(
    files: SessionFiles,
    tracks: Tracks,
    size: int = BATCH,
    seed: int | None = None,
    slots: int = SLOTS,
    block: int = BLOCK,
) -> Iterator[Halves]:
    """Every session once, `size` at a time; the last batch may be smaller.

    With a seed the logs come in a random order and so do the sessions of a block, of which about
    `block` bytes are in memory; another seed an epoch gives other batches.
    """
    if size < 1 or slots < 1:
        raise InputError(f"Batches need a session and a slot at least, not {size} and {slots}.")
    rest: list[Halves] = []
    for halves in _blocks(files, tracks, seed, slots, block):
        together = join([*rest, halves])
        full = len(together) - len(together) % size
        for some in row_slices(full, size):
            yield together[some]
        rest = [together[full:]] if full < len(together) else []
    yield from rest


def _blocks(
    files: SessionFiles, tracks: Tracks, seed: int | None, slots: int, block: int
) -> Iterator[Halves]:
    rng = None if seed is None else np.random.default_rng(np.random.SeedSequence(seed))
    order = np.arange(len(files.logs)) if rng is None else rng.permutation(len(files.logs))
    for log in order:
        causes = files.causes[log] if files.causes else None
        for sessions in read_sessions(files.logs[log], tracks, slots, causes, block):
            halves = cut_in_half(sessions, tracks, slots)
            yield halves if rng is None else halves[rng.permutation(len(halves))]
