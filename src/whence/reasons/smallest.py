"""The smallest set of history items without which a recommended item leaves the list.

"Without" means as if the items had never been there: all their copies go, and older items move up.
All single items are tried, then all pairs, so a set of one or two is proved to be smallest. Triples
are tried only around the pairs that bring the item closest to leaving.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.contract import PAD
from whence.errors import InputError
from whence.memory import cases_at_once, find_in_slices, row_slices
from whence.models.base import CaseReader
from whence.reasons.altered import candidates_of, without_sets
from whence.reasons.answering import Rows, scores_of

TRIPLES: Final = 500
"""How many sets of three items are tried at most for a target."""
NUMBERS_PER_SLOT: Final = 512
"""About what a network holds for a slot; with few histories at once, it stays in the cache."""
STAYS: Final = 0
"""Stands for the rank of a target that stays on the list."""

Sizes = Literal[1, 2, 3]


@dataclass(frozen=True)
class SmallestSet:
    """Items without which a target leaves the list."""

    items: tuple[int, ...]
    """Their numbers, newest first."""
    rank_without: int
    """The target's rank without them, from 1, among items that are not in the whole history."""
    proved: bool
    """Whether all smaller sets of items that the model reads keep the target on the list."""


@torch.no_grad()
def smallest_sets(
    model: CaseReader,
    history: Tensor,
    targets: Tensor,
    slots: int,
    list_size: int,
    most: Sizes = 3,
) -> list[SmallestSet | None]:
    """Return a set for each target `[k]`, or `None` if it is not on the list or none is found.

    A history `[w]` may be longer than the `slots` that the model reads. Then only the items that it
    reads are candidates, and a proof is about those. Of the sets of one size, the target falls
    furthest without the returned one; of equals, it has the newest items. No target is in its own
    set. No set has more than `most` items.
    """
    if list_size < 1:
        raise InputError(f"The size of the list must be at least 1, not {list_size}.")
    found: list[SmallestSet | None] = [None] * len(targets)
    if not found or not bool((history != PAD).any()):
        return found
    search = _Search.of(model, history, slots, list_size)
    staying = search.on_list(targets)
    for size in range(1, most + 1):
        staying = [place for place in staying if found[place] is None]
        if not staying or size > len(search.items):
            break
        if size < 3:
            sets = torch.combinations(torch.arange(len(search.items)), size)
            tried = search.tried(sets, targets[staying])
            for place, one in zip(staying, tried.best(proved=True), strict=True):
                found[place] = one
            closest = dict(zip(staying, tried.margin.unbind(dim=1), strict=True))
            continue
        for place in staying:  # each target has triples of its own
            triples = _extended(sets, closest[place], len(search.items))
            (found[place],) = search.tried(triples, targets[place : place + 1]).best(proved=False)
    return found


def _extended(pairs: Tensor, margin: Tensor, count: int) -> Tensor:
    """Return at most `TRIPLES` triples `[t, 3]`: the closest pairs `[p, 2]`, each with every item.

    Items are places from 0, the newest, to `count`.
    """
    enough = -(-TRIPLES // (count - 2))
    chosen = pairs[margin.argsort(stable=True)[:enough]]
    third = torch.arange(count).expand(len(chosen), -1)
    triples = torch.cat((chosen[:, None].expand(-1, count, -1), third[..., None]), dim=2)
    new = (chosen[:, None] != third[..., None]).all(dim=2)
    few: Tensor = triples[new][:TRIPLES].sort(dim=1).values.unique(dim=0)
    return few


@dataclass(frozen=True, eq=False)
class _Tried:
    """What becomes of k targets without each of p sets."""

    sets: Tensor
    """`[p, size]` items."""
    margin: Tensor
    """`[p, k]`: the target's score less that of the last place on the list; infinite for its own
    set."""
    rank: Tensor
    """`[p, k]`: from 1, or `STAYS`."""

    def best(self, *, proved: bool) -> list[SmallestSet | None]:
        """Return for each target the set without which it falls furthest."""
        rank, row = self.rank.max(dim=0)  # the first of equals
        return [
            None if one == STAYS else SmallestSet(tuple(items), one, proved)
            for one, items in zip(rank.tolist(), self.sets[row].tolist(), strict=True)
        ]


@dataclass(frozen=True, eq=False)
class _Search:
    """A model, a history, and the size of the list that targets should leave."""

    model: CaseReader
    history: Tensor
    """`[w]`"""
    slots: int
    list_size: int
    items: Tensor
    """`[c]`: the distinct items that the model reads, newest first."""
    whole: Tensor
    """`[1, items]`: the scores with the whole history."""

    @staticmethod
    def of(model: CaseReader, history: Tensor, slots: int, list_size: int) -> _Search:
        """Score the whole history."""
        newest_first = candidates_of(history[None], slots)[0].flip(0)
        whole = _scores(model, history[None, -slots:])
        items = newest_first[newest_first != PAD]
        return _Search(model, history, slots, min(list_size, whole.shape[1]), items, whole)

    def on_list(self, targets: Tensor) -> list[int]:
        """Return the places of the targets that are on the list with the whole history."""
        margin, _ = self._standing(self.whole, targets)
        return [place for place, one in enumerate(margin[0].tolist()) if one >= 0]

    def tried(self, places: Tensor, targets: Tensor) -> _Tried:
        """Return what becomes of targets `[k]` without sets `[p, size]`, given as places."""
        sets = self.items[places.to(self.items.device)]
        history = self._within_reach(sets.shape[1])
        each = self.whole.shape[1] + NUMBERS_PER_SLOT * self.slots + len(history)

        def of_some(rows: slice) -> tuple[Tensor, Tensor]:
            left = without_sets(history[None], sets[None, rows], self.slots)[0]
            margin, rank = self._standing(_scores(self.model, left), targets)
            own = (sets[rows, :, None] == targets).any(dim=1)
            return margin.masked_fill(own, torch.inf), rank.masked_fill(own, STAYS)

        slices = row_slices(len(sets), cases_at_once(each, history.is_cuda))
        found = find_in_slices(of_some, slices, each, history.is_cuda)
        margin, rank = (torch.cat(column).cpu() for column in zip(*found, strict=True))
        return _Tried(sets.cpu(), margin, rank)

    def _within_reach(self, size: int) -> Tensor:
        """Return the newest items, as many as the model can read without `size` of its items."""
        copies = (self.history == self.items[:, None]).sum(dim=1)
        gone = int(copies.topk(min(size, len(copies))).values.sum())
        return self.history[-self.slots - gone :]

    def _standing(self, scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return margins and ranks `[r, k]` of targets `[k]`, given the scores `[r, items]`.

        Items of the whole history are no rivals, and no target is its own.
        """
        own = scores[:, targets]
        seen = self.history[self.history != PAD]
        rivals = scores.index_fill(1, seen, -torch.inf)
        best = rivals.topk(min(self.list_size + 1, rivals.shape[1]), dim=1).values
        best = F.pad(best, (0, self.list_size + 1 - best.shape[1]), value=-torch.inf)
        last, next_one = best[:, -2:-1], best[:, -1:]
        counted = ~torch.isin(targets, seen) & (own >= last)  # it takes a place on its own list
        margin = own - torch.where(counted, next_one, last)
        rank = torch.full(own.shape, STAYS, device=own.device)
        for place, left in enumerate((margin < 0).unbind(dim=1)):
            better = rivals[left] > own[left, place, None]
            rank[left, place] = 1 + better.sum(dim=1)
        return margin, rank


def _scores(model: CaseReader, histories: Tensor) -> Tensor:
    """Return `[r, items]`; a transformer's last block computes only the row that answers."""
    lengths = Rows(histories).lengths()
    shortest, longest = (int(one) for one in lengths.aminmax())
    rows = Rows(histories).trimmed(max(1, longest))
    return scores_of(model, rows, None if shortest == longest > 0 else lengths)
