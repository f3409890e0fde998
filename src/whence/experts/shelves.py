"""Experts that read equally much stand on one shelf, and are computed as one batched product.

What experts read is rows of numbers one above the other, so that what several of them hand on is
joined by a view of memory where they lie side by side, and by one copy where they do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Shelf:
    """Consecutive experts, and the equally many blocks each of them reads."""

    experts: slice
    sources: tuple[tuple[int, ...], ...]

    @cached_property
    def count(self) -> int:
        """How many experts."""
        return len(self.sources)

    @cached_property
    def blocks(self) -> int:
        """How many blocks each reads."""
        return len(self.sources[0])

    @cached_property
    def window(self) -> slice | None:
        """The blocks that all of them read, where those are the same and lie side by side."""
        return _side_by_side(self.sources[0]) if len(set(self.sources)) == 1 else None

    @cached_property
    def run(self) -> slice | None:
        """The blocks of one expert after the other's, where all of them lie side by side."""
        return _side_by_side([block for one in self.sources for block in one])


def _side_by_side(blocks: Sequence[int]) -> slice | None:
    """Where they are, if each is followed by the next."""
    run = range(blocks[0], blocks[0] + len(blocks))
    return slice(run.start, run.stop) if list(run) == list(blocks) else None


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
        for number, shelf in enumerate(self.shelves):
            taken = torch.tensor(shelf.sources).flatten()
            self.register_buffer(f"sources_{number}", taken, persistent=False)

    def __len__(self) -> int:
        """How many shelves."""
        return len(self.shelves)

    def read(self, number: int, blocks: Tensor) -> Tensor:
        """`[experts of the shelf, what each reads, R]` of blocks `[blocks, numbers, R]`."""
        shelf, (_, numbers, rows) = self.shelves[number], blocks.shape
        if shelf.run is not None:
            return blocks[shelf.run].reshape(shelf.count, shelf.blocks * numbers, rows)
        if shelf.window is not None:
            return blocks[shelf.window].flatten(0, 1).expand(shelf.count, -1, -1)
        taken = blocks.index_select(0, self._sources(number))
        return taken.view(shelf.count, shelf.blocks * numbers, rows)

    def give_back(self, number: int, read: Tensor, blocks: Tensor) -> None:
        """Add what belongs to the blocks read, such as gradients, to where they came from."""
        sources = self._sources(number)
        blocks.index_add_(0, sources, read.reshape(len(sources), *blocks.shape[1:]))

    def _sources(self, number: int) -> Tensor:
        """Of a shelf, all blocks read, expert after expert."""
        sources: Tensor = getattr(self, f"sources_{number}")
        return sources
