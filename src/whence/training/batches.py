"""Training batches: windows of histories with what came next and what did not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.contract import PAD
from whence.data.splits import Split
from whence.errors import InputError
from whence.models.packed import NO_HISTORY, Packed
from whence.randomness import Chance, Randomness
from whence.training.negatives import Unseen

TOO_LARGE = 1e-3
"""How seldom a batch may be larger than the one size, where all must have one size."""


class Batch(NamedTuple):
    """Packed histories and, for each of their `T` rows, what came next and what did not.

    In a stack of seeds every tensor is `[S, T]`.
    """

    inputs: Packed
    positives: Tensor
    negatives: Tensor

    def of(self, number: int) -> Batch:
        """The batch of one seed of a stack."""
        inputs = Packed(*(values[number] for values in self.inputs))
        return Batch(inputs, self.positives[number], self.negatives[number])


class Batches:
    """Draws users with replacement, a window of each one's training events, and negatives.

    One batch a seed, all at once, as long as the longest; what a seed draws for its own rows is
    what it would draw alone.

    All of it happens on the device, and no step of it depends on the number of users. With
    `one_size`, every batch has the same number of rows, known in advance, as a recorded graph needs
    it. What is beyond them is left out of that step, which happens less than once in a thousand
    steps.
    """

    def __init__(
        self,
        split: Split,
        length: int,
        size: int,
        randomness: Sequence[Randomness],
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
            self.rows = self._whole_windows(_most(targets, size))
        self.unseen = Unseen.of(split, device)
        self.chance, self.chance_of_negatives = (
            Chance([one.key(stream) for one in randomness], device)
            for stream in ("batches", "negatives")
        )

    def draw(self, step: Tensor) -> Batch:
        """The batch `[S, T]` of that step."""
        who, where = self.chance.whole(step, range(2), self.size)
        users = self.users[who % len(self.users)]
        starts, ends = self._windows(users, where)
        reach = (ends - starts - 1).cumsum(1)  # the last event of a window is only a target
        rows = self.rows or self._whole_windows(int(reach[:, -1].max()))
        row = torch.arange(rows, device=self.device).repeat(len(users), 1)
        history = torch.searchsorted(reach, row, right=True)
        real = history < self.size
        history.clamp_(max=self.size - 1)
        behind = torch.where(real, reach.gather(1, history) - row, 1)
        event = ends.gather(1, history) - 1 - behind
        inputs = Packed(
            items=torch.where(real, self.items[event], PAD),
            slots=self.length - behind,
            histories=torch.where(real, history, NO_HISTORY),
        )
        user = users.gather(1, history)
        rank = self.chance_of_negatives.whole(step, range(1), rows)[0] % self.unseen.choices(user)
        return Batch(
            inputs,
            positives=torch.where(real, self.items[event + 1], PAD),
            negatives=torch.where(real, self.unseen.ranked(user, rank), PAD),
        )

    def _whole_windows(self, rows: int) -> int:
        return -(-rows // self.length) * self.length

    def _windows(self, users: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
        """From where to where: n + 1 events a user, beginning anywhere when there are more."""
        starts, ends = self.starts[users], self.ends[users]
        spare = (ends - starts - (self.length + 1)).clamp_(min=0)
        ends = ends - where % (spare + 1)
        return torch.maximum(starts, ends - (self.length + 1)), ends


def _most(sizes: npt.NDArray[np.int64], count: int) -> int:
    """What the sum of so many sizes, drawn at random, exceeds in fewer than `TOO_LARGE` cases.

    The sum's distribution is that of the sizes, convolved with itself: a power of its transform.
    """
    largest = count * int(sizes.max())
    share = np.bincount(sizes) / len(sizes)
    of_sum = np.fft.irfft(np.fft.rfft(share, largest + 1) ** count, largest + 1)
    exceeded = 1 - of_sum.cumsum()
    return int(np.argmax(exceeded < TOO_LARGE))
