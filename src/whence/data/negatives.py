"""Items a user has not met, drawn exactly and all at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from whence.data.splits import Split

Ints = npt.NDArray[np.int64]


class Unseen:
    """Draws uniformly from the items outside each user's training events.

    No draw is rejected. If `s_0 < s_1 < …` are a user's items, `s_i − i` items below `s_i` are
    unseen; so the unseen item with exactly `r` unseen ones before it is `r` plus the number of
    `i` with `s_i − i ≤ r`, and that count is one binary search over all users' numbers in a row.
    """

    def __init__(self, split: Split) -> None:
        interactions = split.interactions
        self.item_count = interactions.item_count
        trained = split.trained()
        users = interactions.user_count
        pairs = np.sort(interactions.pairs()[trained])
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        user, item = np.divmod(pairs, self.item_count)
        self.seen_counts = np.bincount(user, minlength=users)
        self.first = np.concatenate(([0], self.seen_counts.cumsum()))[:-1]
        unseen_before = item - (np.arange(len(pairs)) - self.first[user])
        self.keys = user * np.int64(self.item_count + 1) + unseen_before

    def draw(self, users: Ints, count: int, rng: np.random.Generator) -> Ints:
        """`[B, count]` items. A user who has seen everything gets any item."""
        unseen = self.item_count - self.seen_counts[users]
        exhausted = unseen == 0
        limit = np.where(exhausted, self.item_count, unseen)[:, None]
        rank = rng.integers(0, limit, size=(len(users), count))
        key = users[:, None] * np.int64(self.item_count + 1) + rank
        below = np.searchsorted(self.keys, key, side="right") - self.first[users][:, None]
        return np.where(exhausted[:, None], rank, rank + below)
