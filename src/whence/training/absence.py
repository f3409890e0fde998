"""Histories that are trained with some of their items absent, as explainers will ask them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from whence.coalitions import Sizes
from whence.randomness import Chance, Randomness, happens
from whence.training.layout import Laid


class Absence:
    """Draws a coalition of the items of some histories: its size by Shapley's kernel, then who."""

    def __init__(
        self, share: float, longest: int, randomness: Sequence[Randomness], device: str
    ) -> None:
        self.share = share
        self.sizes = Sizes(longest, device)
        self.chance = Chance([one.key("absence") for one in randomness], device)

    def draw(self, step: Tensor, laid: Laid, items: Tensor) -> Tensor:
        """`[S, T]`: which rows are present in that step; only `items` `[S, T]` can be absent."""
        (turn,) = self.chance.whole(step, range(1), items.shape[1])
        which, size = self.chance.whole(step, range(1, 3), laid.sizes.shape[1])
        counts = laid.count(items)
        chosen = happens(which, self.share)
        present = torch.where(chosen, self.sizes.draw(counts, size), counts)
        return ~items | (laid.rank(turn, items) < present.gather(1, laid.history))
