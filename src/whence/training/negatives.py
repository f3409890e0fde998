"""Random items as negatives: those that a user has not seen, or some for all users."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from whence.data.splits import Split
from whence.errors import InputError
from whence.models.tasks import Negatives
from whence.randomness import random_below

_MADE: WeakKeyDictionary[Split, dict[str, Unseen]] = WeakKeyDictionary()


class Unseen:
    """Draws uniformly from the items outside each user's training events.

    No draw is rejected. If `s_0 < s_1 < …` are a user's items, `s_i − i` items below `s_i` are
    unseen. So the unseen item with exactly `r` unseen ones before it is `r` plus the number of `i`
    with `s_i − i ≤ r`. One binary search over the numbers of all users finds that count.
    """

    def __init__(self, split: Split, device: str = "cpu") -> None:
        interactions = split.interactions
        self.item_count = interactions.item_count
        pairs = np.sort(interactions.pairs()[split.trained()])
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        user, item = np.divmod(pairs, self.item_count)
        seen_counts = np.bincount(user, minlength=interactions.user_count)
        first = seen_counts.cumsum() - seen_counts
        unseen_before = item - (np.arange(len(pairs)) - first[user])
        keys = user * np.int64(self.item_count + 1) + unseen_before
        self.seen_counts, self.first, self.keys = (
            torch.from_numpy(numbers).to(device) for numbers in (seen_counts, first, keys)
        )

    @classmethod
    def of(cls, split: Split, device: str = "cpu") -> Unseen:
        """Return the one of a split and a device; it is built once, since it sorts all events."""
        made = _MADE.setdefault(split, {})
        if device not in made:
            made[device] = cls(split, device)
        return made[device]

    def draw(self, users: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Return items `[B, count]`. A user who has seen everything gets any item."""
        users = users[:, None].repeat(1, count)
        return self.ranked(users, random_below(self.choices(users), generator))

    def choices(self, users: Tensor) -> Tensor:
        """Return the number of items that each user's draw chooses from."""
        unseen = self.item_count - self.seen_counts[users]
        return torch.where(unseen == 0, self.item_count, unseen)

    def ranked(self, users: Tensor, rank: Tensor) -> Tensor:
        """Return the item that has `rank` possible items before it."""
        key = users * (self.item_count + 1) + rank
        below = torch.searchsorted(self.keys, key, right=True) - self.first[users]
        exhausted = self.seen_counts[users] == self.item_count
        return torch.where(exhausted, rank, rank + below)


class SharedDraws:
    """Draws the negatives that all questions of a batch share, and knows their probabilities.

    Of `K` items, `K − P` are drawn uniformly and `P` in proportion to the training events `c` of
    an item, with `P = K/2` or `P = 0`. So q_i = (1 − P/K) / I + P/K · c_i / Σ c.
    """

    def __init__(self, split: Split, negatives: Negatives, device: str = "cpu") -> None:
        self.count, self.item_count = negatives.shared, split.interactions.item_count
        if self.item_count < 2:
            raise InputError(
                "The data have a single item, so there is no other to draw as a negative. Set "
                "loss=softmax, or use data with more items."
            )
        self.by_count = self.count // 2 if negatives.half_by_count else 0
        events = np.bincount(split.interactions.items[split.trained()], minlength=self.item_count)
        self.total = int(events.sum())
        self.ends = torch.from_numpy(events.cumsum()).to(device)
        share = self.by_count / self.count
        q = (1 - share) / self.item_count + share * events / self.total
        self.log_q = torch.from_numpy(np.log(q)).to(device, torch.float32)

    def draw(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return items `[S, K]` and their log q, from random integers `[S, K]`."""
        uniform, by_count = numbers.split((self.count - self.by_count, self.by_count), dim=1)
        popular = torch.searchsorted(self.ends, by_count % self.total, right=True)
        items = torch.cat((uniform % self.item_count, popular), dim=1)
        return items, self.log_q[items]
