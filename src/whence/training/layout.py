"""How histories lie in the rows of a batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

TURNS = 2**40
"""Among how many turns a row of a history draws its own; two are hardly ever the same."""


@dataclass(frozen=True, eq=False)
class Laid:
    """How the `B` histories of a batch lie one after another in its `T` rows, of `S` seeds each."""

    sizes: Tensor
    """`[S, B]`: how many rows each history has."""
    reach: Tensor
    """`[S, B]`: the row after its last one, which may be beyond all."""
    row: Tensor
    """`[S, T]`: its number."""
    history: Tensor
    """`[S, T]`: whose row it is."""
    real: Tensor
    """`[S, T]`: whether it is anybody's; the rest is filling."""

    def count(self, marked: Tensor) -> Tensor:
        """`[S, B]`: how many of each history's rows are marked `[S, T]`."""
        before = F.pad(marked.cumsum(1), (1, 0))
        rows = marked.shape[1]
        ends, starts = (one.clamp(max=rows) for one in (self.reach, self.reach - self.sizes))
        return before.gather(1, ends) - before.gather(1, starts)

    def rank(self, numbers: Tensor, marked: Tensor) -> Tensor:
        """`[S, T]`: how many of the marked rows of its history have a smaller number `[S, T]`.

        It says nothing of rows that are not marked.
        """
        turn = 2 * self.history + ~marked
        order = (turn * TURNS + numbers % TURNS).argsort(dim=1, stable=True)
        return order.argsort(dim=1) - (self.reach - self.sizes).gather(1, self.history)


def places_of(marked: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`[S, M]`: the first `count` rows that are marked `[S, T]`, and whether there are so many."""
    number = marked.cumsum(1)
    wanted = torch.arange(1, count + 1, device=marked.device).repeat(len(marked), 1)
    found = wanted <= number[:, -1:]
    return torch.where(found, torch.searchsorted(number, wanted), 0), found
