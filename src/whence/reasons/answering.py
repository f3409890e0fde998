"""The scores of many histories, each different one once, short ones together without padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Ints
from whence.contract import ALL, PAD
from whence.memory import cases_at_once
from whence.models.base import CaseReader
from whence.models.ensemble import Ensemble
from whence.models.transformer import Transformer

SLOTS_AT_ONCE: Final = {"cpu": 3_200, "cuda": 1_600_000}
"""How many slots a network reads at once. On a CPU, what it holds for them stays in the cache."""
MOST_ROWS: Final = 2**15
"""A GPU's kernels of attention take no more than twice as many at once."""
MULTIPLIER: Final = 0x9E3779B97F4A7C15 - 2**64
"""Of SplitMix64, as a signed number."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs of models."""

    histories: Tensor
    """`[R, n]`, padded on the left."""
    present: Tensor | None = None
    """Bool `[R, n]`: the items that are not hidden in their place."""

    def __getitem__(self, some: Tensor | slice) -> Rows:
        """Return some rows."""
        return Rows(self.histories[some], None if self.present is None else self.present[some])

    def trimmed(self, slots: int) -> Rows:
        """Return the newest slots."""
        return Rows(
            self.histories[:, -slots:], None if self.present is None else self.present[:, -slots:]
        )

    def lengths(self) -> Tensor:
        """Return `[R]`: how many of the newest slots hold all items."""
        slots = self.histories.shape[1]
        age = torch.arange(slots, 0, -1, device=self.histories.device)
        return torch.where(self.histories != PAD, age, 0).amax(dim=1)


@dataclass(frozen=True, eq=False)
class Different:
    """The different rows of some inputs, shorter ones first."""

    rows: Rows
    lengths: Tensor
    """`[N]`"""
    users: Tensor
    """`[N]`: whose each row is."""
    place: Tensor
    """`[R]`: which of them each of the inputs is."""

    @staticmethod
    def of(rows: Rows, users: Tensor) -> Different:
        """Find the rows that are equal, of the same user `[R]`."""
        first, place = _first_of_equals(_fingerprints(rows, users))
        if not _are_equal(rows, users, first[place]):  # nearly impossible
            first = place = torch.arange(len(users), device=users.device)
        lengths = rows[first].lengths()
        order = lengths.argsort(stable=True)
        return Different(
            rows[first[order]], lengths[order], users[first[order]], _inverse(order)[place]
        )

    @cached_property
    def asked(self) -> tuple[Tensor, list[int]]:
        """Return the inputs in the order of the rows, and at which of them each row begins."""
        order = self.place.argsort(stable=True)
        each = torch.arange(len(self.users) + 1, device=order.device)
        return order, torch.searchsorted(self.place[order], each).tolist()

    def slices(self, numbers_each: int) -> Iterator[tuple[slice, Rows, Tensor | None]]:
        """Yield some rows at a time without the slots that none of them uses.

        With their lengths, if they differ.
        """
        lengths: Ints = self.lengths.clamp(min=1).cpu().numpy()
        device = self.users.device
        fitting_scores = cases_at_once(numbers_each, device.type == "cuda") // 2
        most = min(MOST_ROWS, max(1, fitting_scores))
        start = 0
        while start < len(lengths):
            ahead = lengths[start : start + most]
            fitting = ahead * np.arange(1, len(ahead) + 1) <= SLOTS_AT_ONCE[device.type]
            stop = start + max(1, int(fitting.sum()))
            some, longest = slice(start, stop), int(lengths[stop - 1])
            alike = lengths[start] == longest > 1
            yield some, self.rows[some].trimmed(longest), None if alike else self.lengths[some]
            start = stop


def scores_of(model: CaseReader, rows: Rows, lengths: Tensor | None) -> Tensor:
    """Return `[R, items]`; `lengths` `[R]` are needed if rows have padding.

    Of the last block of a transformer, only the row that answers is computed.
    """
    if isinstance(model, Ensemble) and model.reads_history:
        total = torch.zeros((), device=rows.histories.device)
        for member, factor in model.members:
            longest = member.config.max_len
            own = None if lengths is None else lengths.clamp(max=longest)
            total = total + factor * scores_of(member, rows.trimmed(longest), own)
        return total
    if not isinstance(model, Transformer) or type(model).score is not Transformer.score:
        return model.score(rows.histories, ALL, present=rows.present)
    model.require_length(rows.histories)
    if rows.present is None and (lengths is None or model.causal):
        answers = model.answers_unmasked(rows.histories, lengths)
    else:
        answers = model.answers_alone(rows.histories, rows.present)
    return answers @ model.item_vectors().T


def _fingerprints(rows: Rows, users: Tensor) -> Tensor:
    """Return `[R]`: numbers that are equal for equal rows, and else nearly certainly differ."""
    slots = rows.histories.shape[1]
    weights = torch.arange(1, 2 * slots + 2, device=users.device) * MULTIPLIER
    weights = (weights ^ (weights >> 29)) * MULTIPLIER | 1
    found = (rows.histories * weights[:slots]).sum(dim=1) + users * weights[-1]
    if rows.present is not None:
        found = found + (rows.present * weights[slots : 2 * slots]).sum(dim=1)
    return found


def _first_of_equals(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Return the place of the first of each group of equal numbers, and the group of each."""
    ordered, order = numbers.sort(stable=True)
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return order[new], (new.cumsum(dim=0) - 1)[_inverse(order)]


def _inverse(order: Tensor) -> Tensor:
    """Return the permutation that undoes another one."""
    found = torch.empty_like(order)
    found[order] = torch.arange(len(order), device=order.device)
    return found


def _are_equal(rows: Rows, users: Tensor, others: Tensor) -> bool:
    """Return whether each row equals another one, given by its place."""
    other = rows[others]
    same = (rows.histories == other.histories).all() & (users == users[others]).all()
    if rows.present is not None and other.present is not None:
        same &= (rows.present == other.present).all()
    return bool(same)


def mean_of(each: Sequence[Tensor]) -> Tensor:
    """Return the mean of tensors as a new one."""
    total = each[0].clone()
    for one in each[1:]:
        total += one
    return total if len(each) == 1 else total.div_(len(each))
