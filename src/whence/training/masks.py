"""Which items of a batch are hidden behind a mask."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.models.tasks import Cloze
from whence.randomness import Chance, Randomness, happens
from whence.training.layout import Laid

Floats = npt.NDArray[np.float64]


class Masks:
    """Draws each item with a chance of its own, and one at random where none was drawn."""

    def __init__(self, task: Cloze, randomness: Sequence[Randomness], device: str) -> None:
        self.task = task
        self.chance = Chance([one.key("masks") for one in randomness], device)

    def draw(self, step: Tensor, laid: Laid) -> Tensor:
        """`[S, T]`: which rows are masked in that step."""
        (each,) = self.chance.whole(step, range(1), laid.row.shape[1])
        one, kind = self.chance.whole(step, range(1, 3), laid.sizes.shape[1])
        masked = laid.real & happens(each, self.task.share)
        chosen = laid.reach - 1 - one % laid.sizes
        alone = laid.count(masked) == 0
        if self.task.only_last:
            only_last = happens(kind, self.task.only_last)
            masked &= ~only_last.gather(1, laid.history)
            chosen = torch.where(only_last, laid.reach - 1, chosen)
            alone |= only_last
        chosen = torch.where(alone, chosen, -1)
        return masked | (laid.row == chosen.gather(1, laid.history))

    def share_of_counts(self, sizes: Floats) -> Floats:
        """How often a history has 0, 1, … masks, from how often it has 0, 1, … rows."""
        share = np.zeros(len(sizes))
        binomial = np.ones(1)  # of 0, 1, … items when each is masked with the chance γ
        for size, frequency in enumerate(sizes):
            share[: size + 1] += frequency * binomial
            binomial = np.convolve(binomial, (1 - self.task.share, self.task.share))
        share *= 1 - self.task.only_last
        share[1] += share[0] + self.task.only_last
        share[0] = 0
        return share
