"""Histories as the models take them: one row each, the newest item in the last slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whence.arrays import Ints
from whence.contract import PAD


def histories(items: npt.NDArray[np.int32], starts: Ints, ends: Ints, length: int) -> Ints:
    """`[B, length]`: the newest events of each span `[start, end)`, padded on the left."""
    event, inside = span_events(starts, ends, length)
    return np.where(inside, items[event], PAD)


def span_events(starts: Ints, ends: Ints, length: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Which event stands in each slot, and whether one does (event 0 where none does)."""
    event = ends[:, None] - length + np.arange(length)
    inside = event >= starts[:, None]
    return np.where(inside, event, 0), inside


def newest_events(starts: Ints, ends: Ints, most: int | None = None) -> tuple[Ints, Ints]:
    """The events of every span, of a long one the last, and which span each is of."""
    if most is not None:
        starts = np.maximum(starts, ends - most)
    sizes = ends - starts
    span = np.repeat(np.arange(len(sizes)), sizes)
    return np.arange(sizes.sum()) - np.repeat(sizes.cumsum() - sizes - starts, sizes), span


def one_history(items: Sequence[int] | npt.NDArray[np.int32], length: int) -> Ints:
    """`[1, length]`: a hand-made history."""
    flat = np.asarray(items, dtype=np.int32)
    return histories(flat, np.array([0]), np.array([len(flat)]), length)


def histories_without(
    items: npt.NDArray[np.int32], left_out: npt.NDArray[np.int32], length: int
) -> Ints:
    """`[k, length]`: one history's newest events without each of `k` items, wherever they stand."""
    kept = items[None, :] != left_out[:, None]
    # A stable sort by "kept" moves what stays to the right, in order.
    moved = np.argsort(kept, axis=1, kind="stable")
    there = np.arange(len(items)) >= (~kept).sum(axis=1)[:, None]
    shortened = np.where(there, items[moved], PAD)[:, -length:]
    padding = np.full((len(left_out), max(0, length - len(items))), PAD)
    return np.concatenate((padding, shortened), axis=1)


@dataclass(frozen=True, eq=False)
class Cases:
    """Points to predict: the events `[start, end)` of a user, and the item that came next."""

    items: npt.NDArray[np.int32]
    """All events, shared with the interactions."""
    users: Ints
    starts: Ints
    ends: Ints
    targets: Ints

    def __len__(self) -> int:
        """How many cases."""
        return len(self.users)

    def __getitem__(self, rows: slice | Ints) -> Cases:
        """Some of the cases."""
        return Cases(
            self.items, self.users[rows], self.starts[rows], self.ends[rows], self.targets[rows]
        )

    def histories(self, length: int) -> Ints:
        """`[B, length]`, the newest item last."""
        return histories(self.items, self.starts, self.ends, length)
