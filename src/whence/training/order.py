"""Everything once an epoch, in an order that a seed draws anew for each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from whence.randomness import Chance, Randomness


class Order:
    """Of `N` things, `size` a step; the last step of an epoch has what is left.

    The order of the epoch at hand stays in one place of memory, as a recorded step needs it.
    """

    def __init__(
        self, count: int, size: int, randomness: Sequence[Randomness], device: str = "cpu"
    ) -> None:
        self.count, self.size, self.device = count, size, device
        self.keys = [one.key("batches") for one in randomness]
        self.steps = -(-count // size)
        """Of an epoch."""
        self.epoch = -1
        self.drawn = torch.full(
            (len(self.keys), self.steps * size), count, dtype=torch.int64, device=device
        )
        """`[S, …]`: the things' numbers in their order, and `N` where there is none."""

    def begin(self, step: int) -> int:
        """The place of that step in its epoch, whose order is drawn if it is a new one."""
        epoch, place = divmod(step, self.steps)
        if epoch != self.epoch:
            # Not kept: its numbers are as many as the things, and come once an epoch.
            chance = Chance(self.keys, self.device)
            turn = torch.tensor(epoch, device=self.device)
            (numbers,) = chance.whole(turn, range(1), self.count)
            self.drawn[:, : self.count] = numbers.argsort(dim=1, stable=True)
            self.epoch = epoch
        return place

    def at(self, step: Tensor) -> Tensor:
        """`[S, size]`: what comes in that step of the epoch at hand; in several `[S · K, size]`."""
        first = (step % self.steps) * self.size
        found = self.drawn[:, first[..., None] + torch.arange(self.size, device=self.device)]
        return found.flatten(0, -2)
