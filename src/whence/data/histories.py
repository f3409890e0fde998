"""Histories as models read them: one row each, with the newest item in the last slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whence.arrays import Bools, Ints, Ints32
from whence.contract import PAD


def histories(items: Ints32, starts: Ints, ends: Ints, max_len: int) -> Ints:
    """Return the newest events of each span `[start, end)`, padded on the left: `[B, max_len]`."""
    event, inside = span_events(starts, ends, max_len)
    return np.where(inside, items[event], PAD)


def span_events(starts: Ints, ends: Ints, max_len: int) -> tuple[Ints, Bools]:
    """Return the event in each slot, and whether the slot is filled; empty slots hold event 0."""
    event = ends[:, None] - max_len + np.arange(max_len)
    inside = event >= starts[:, None]
    return np.where(inside, event, 0), inside


def newest_events(starts: Ints, ends: Ints, most: int | None = None) -> tuple[Ints, Ints]:
    """Return the newest `most` events of every span, and the span of each event."""
    if most is not None:
        starts = np.maximum(starts, ends - most)
    sizes = ends - starts
    span = np.repeat(np.arange(len(sizes)), sizes)
    return np.arange(sizes.sum()) - np.repeat(sizes.cumsum() - sizes - starts, sizes), span


def one_history(items: Sequence[int] | Ints32, max_len: int) -> Ints:
    """Return one history as a batch `[1, max_len]`."""
    flat = np.asarray(items, dtype=np.int32)
    return histories(flat, np.array([0]), np.array([len(flat)]), max_len)


def histories_without(items: Ints32, removed: Ints32, max_len: int) -> Ints:
    """Return one history without each of the `k` removed items: `[k, max_len]`."""
    kept = items[None, :] != removed[:, None]
    # A stable sort by `kept` moves these items to the right, in order.
    moved = np.argsort(kept, axis=1, kind="stable")
    there = np.arange(len(items)) >= (~kept).sum(axis=1)[:, None]
    shortened = np.where(there, items[moved], PAD)[:, -max_len:]
    padding = np.full((len(removed), max(0, max_len - len(items))), PAD)
    return np.concatenate((padding, shortened), axis=1)


@dataclass(frozen=True, eq=False)
class Cases:
    """Predictions to make: the events `[start, end)` of a user, and the item that came next."""

    items: Ints32
    """The items of all events, shared with the interactions."""
    users: Ints
    starts: Ints
    ends: Ints
    targets: Ints

    def __len__(self) -> int:
        """Return the number of cases."""
        return len(self.users)

    def __getitem__(self, rows: slice | Ints) -> Cases:
        """Return some of the cases."""
        return Cases(
            self.items, self.users[rows], self.starts[rows], self.ends[rows], self.targets[rows]
        )

    def histories(self, max_len: int) -> Ints:
        """Return the histories `[B, max_len]`, with the newest item last."""
        return histories(self.items, self.starts, self.ends, max_len)
