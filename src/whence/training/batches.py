"""Training batches: windows of histories with what came next and what did not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whence.contract import PAD
from whence.data.splits import Split
from whence.errors import InputError
from whence.models.packed import NO_HISTORY, Packed
from whence.randomness import Randomness, whole_below
from whence.training.negatives import Unseen

DEVIATIONS = 8
"""How far above its mean the size of a batch is allowed for, where all must have one size."""


AHEAD = 8
"""How many batches are drawn at once, where their sizes may differ."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Packed histories and, for each of their `T` rows, what came next and what did not."""

    inputs: Packed
    positives: Tensor
    negatives: Tensor


def _batch(
    items: Tensor, slots: Tensor, histories: Tensor, positives: Tensor, negatives: Tensor
) -> Batch:
    return Batch(Packed(items, slots, histories), positives, negatives)


class Batches:
    """Draws users with replacement, a window of each one's training events, and negatives.

    All of it happens on the device, and no step of it depends on the number of users. With
    `one_size`, every batch has the same number of rows, known in advance, as a recorded graph needs
    it: 8 standard deviations more than the mean, and what is beyond that is not trained on, which
    practically never happens.
    """

    def __init__(
        self,
        split: Split,
        length: int,
        size: int,
        randomness: Randomness,
        device: str = "cpu",
        one_size: bool = False,
    ) -> None:
        starts, ends = split.interactions.offsets[:-1], split.train_ends
        users = np.flatnonzero(ends - starts >= 2)
        if not len(users):
            raise InputError(
                "No user has two events to learn from besides those held out; there is nothing "
                "to train on."
            )
        self.users, self.starts, self.ends, self.items = (
            torch.from_numpy(numbers).to(device)
            for numbers in (users, starts, ends, split.interactions.items)
        )
        self.length, self.size, self.device = length, size, device
        self.rows: int | None = None
        if one_size:
            targets = np.minimum(ends[users] - starts[users] - 1, length)
            most = size * targets.mean() + DEVIATIONS * math.sqrt(size) * targets.std()
            self.rows = self._whole_windows(min(math.ceil(most), size * int(targets.max())))
        self.unseen = Unseen(split, device)
        self.generators = {
            stream: randomness.torch(stream, device) for stream in ("batches", "negatives")
        }
        self.drawn: list[Batch] = []
        self.taken = 0
        """Of those drawn, how many were handed out."""
        self.drawn_from = self._states()
        """Where the streams stood before them."""

    def draw(self) -> Batch:
        """The next batch."""
        if self.rows is not None:
            return self._draw_several(1)[0]
        if self.taken == len(self.drawn):
            self.drawn_from = self._states()
            self.drawn, self.taken = self._draw_several(AHEAD), 0
        self.taken += 1
        return self.drawn[self.taken - 1]

    def _draw_several(self, count: int) -> list[Batch]:
        """`A` batches at once, since small arrays take as long as larger ones."""
        chosen = torch.empty(count, self.size, dtype=torch.int64, device=self.device)
        chosen.random_(0, len(self.users), generator=self.generators["batches"])
        users = self.users[chosen]
        starts, ends = self._windows(users)
        sizes = ends - starts - 1  # the last event of a window is only a target
        filling = self._filling(sizes.sum(dim=1, keepdim=True))
        # The filling is one history more behind those of its batch; whose it is plays no role.
        users, ends = (torch.cat((one, one[:, :1]), dim=1).view(-1) for one in (users, ends))
        reach = torch.cat((sizes, filling), dim=1).view(-1).cumsum(0)
        row = torch.arange(self.rows or int(reach[-1]), device=self.device)
        place = torch.searchsorted(reach, row, right=True)
        history = place % (self.size + 1)
        real = history < self.size
        behind = torch.where(real, reach[place] - row, 1)
        event = ends[place] - 1 - behind
        negatives = self.unseen.draw(users[place], 1, self.generators["negatives"])[:, 0]
        columns = (
            torch.where(real, self.items[event], PAD),
            self.length - behind,
            torch.where(real, history, NO_HISTORY),
            torch.where(real, self.items[event + 1], PAD),
            torch.where(real, negatives, PAD),
        )
        if self.rows is not None:
            return [_batch(*columns)]
        whole = reach.view(count, -1)[:, -1]
        sizes_of_batches = whole.diff(prepend=whole.new_zeros(1)).tolist()
        split = zip(*(column.split(sizes_of_batches) for column in columns), strict=True)
        return [_batch(*one) for one in split]

    def _filling(self, rows: Tensor) -> Tensor:
        """How many rows are missing to whole windows, or to the one size."""
        if self.rows is not None:
            return (self.rows - rows).clamp(min=0)
        return -rows % self.length

    def state(self) -> dict[str, Tensor]:
        """Where the streams of chance stood before the batches at hand, and how many are taken."""
        before = self.drawn_from if self.drawn else self._states()
        return {**before, "taken": torch.tensor(self.taken)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Stand where `state` was taken."""
        for stream, generator in self.generators.items():
            generator.set_state(state[stream].cpu())
        self.drawn, self.taken = [], 0
        for _ in range(int(state["taken"])):
            self.draw()

    def _states(self) -> dict[str, Tensor]:
        return {stream: one.get_state() for stream, one in self.generators.items()}

    def _whole_windows(self, rows: int) -> int:
        return -(-rows // self.length) * self.length

    def _windows(self, users: Tensor) -> tuple[Tensor, Tensor]:
        """From where to where: n + 1 events a user, beginning anywhere when there are more."""
        starts, ends = self.starts[users], self.ends[users]
        spare = (ends - starts - (self.length + 1)).clamp_(min=0)
        ends = ends - whole_below(spare + 1, self.generators["batches"])
        return torch.maximum(starts, ends - (self.length + 1)), ends
