"""Experts that read equally much stand on one shelf, and are computed as one batched product.

What experts read is rows of numbers one above the other, so that what several of them hand on is
joined by a view of memory where they lie side by side, and by one copy where they do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Shelf:
    """Consecutive experts, and the equally many blocks each of them reads."""

    experts: slice
    sources: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> int:
        """How many experts."""
        return len(self.sources)

    @property
    def blocks(self) -> int:
        """How many blocks each reads."""
        return len(self.sources[0])

    @property
    def window(self) -> slice | None:
        """The blocks that all of them read, where those are the same and lie side by side."""
        first = self.sources[0]
        run = tuple(range(first[0], first[0] + len(first)))
        same = all(one == run for one in self.sources)
        return slice(run[0], run[-1] + 1) if same else None


def shelves_of(sources: Sequence[Sequence[int]]) -> list[Shelf]:
    """Neighbours that read equally many blocks together; those that read none are left out."""
    shelves: list[Shelf] = []
    place = 0
    for blocks, some in groupby(sources, key=len):
        rows = tuple(map(tuple, some))
        if blocks:
            shelves.append(Shelf(slice(place, place + len(rows)), rows))
        place += len(rows)
    return shelves


class Joining(nn.Module):
    """Joins for every shelf what its experts read."""

    def __init__(self, sources: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.experts = len(sources)
        self.shelves = shelves_of(sources)
        self.counts = [shelf.count for shelf in self.shelves]
        self.windows = [shelf.window for shelf in self.shelves]
        for number, shelf in enumerate(self.shelves):
            taken = torch.tensor(shelf.sources).flatten()
            self.register_buffer(f"sources_{number}", taken, persistent=False)

    def __len__(self) -> int:
        """How many shelves."""
        return len(self.shelves)

    def read(self, number: int, blocks: Tensor) -> Tensor:
        """`[experts of the shelf, what each reads, R]` of blocks `[blocks, numbers, R]`."""
        count, window = self.counts[number], self.windows[number]
        if window is None:
            taken = blocks.index_select(0, self._sources(number))
            return taken.view(count, len(taken) // count * blocks.shape[1], blocks.shape[2])
        taken = blocks[window].flatten(0, 1)[None]
        return taken if count == 1 else taken.expand(count, -1, -1)

    def give_back(self, number: int, read: Tensor, blocks: Tensor) -> None:
        """Add what belongs to the blocks read, such as gradients, to where they came from."""
        sources = self._sources(number)
        blocks.index_add_(0, sources, read.reshape(len(sources), *blocks.shape[1:]))

    def _sources(self, number: int) -> Tensor:
        """Of a shelf, all blocks read, expert after expert."""
        sources: Tensor = getattr(self, f"sources_{number}")
        return sources
