"""Histories laid one after another in a single row, so that training computes no padding.

The row is cut into windows as long as the longest history. A history that ends in a window begins
there or in the window before, so each window attends to itself and the one before it, where rows
see later ones also to the one after it, and a mask keeps histories apart. No history is sorted into
a bin, and no window has more than its share.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

NO_HISTORY = -1
"""Stands where the row is filled up to whole windows."""
NOBODY = -2
"""Whose rows see what is absent."""
HIDDEN = -1e30
"""Added to a logit, it leaves exactly 0 of the weight."""


class Packed(NamedTuple):
    """`T` rows: the items of several histories, oldest first in each, and then filling."""

    items: Tensor
    """`[T]`: catalog rows, or `PAD`."""
    slots: Tensor
    """`[T]`: the slot it would have in a padded history, where the newest has the last."""
    histories: Tensor
    """`[T]`: which history it is of, in rising order, or `NO_HISTORY`."""
    present: Tensor | None = None
    """`[T]`: whether rows may see it; none says that all are seen."""

    @property
    def real(self) -> Tensor:
        """`[T]`: what is not filling."""
        return self.histories != NO_HISTORY

    def of(self, number: int) -> Packed:
        """Those of one seed of a stack."""
        items, slots, histories, present = self
        present = None if present is None else present[number]
        return Packed(items[number], slots[number], histories[number], present)


class Windows:
    """How packed histories attend to themselves: `K` windows of `n` rows, `T = K·n`."""

    def __init__(self, batch: Packed, length: int, *, causal: bool) -> None:
        own = batch.histories.view(-1, length)
        self.count, self.length = own.shape
        self.reach = (-1, 0) if causal else (-1, 0, 1)
        """Which windows a window attends to, from itself."""
        seen = own
        if batch.present is not None:
            seen = torch.where(batch.present.view(own.shape), own, NOBODY)
        nothing = torch.full_like(own[:1], NOBODY)  # before the first, after the last
        around = torch.cat((nothing, seen, nothing))
        key = torch.cat([around[1 + to : 1 + to + self.count] for to in self.reach], dim=1)
        visible = own[:, :, None] == key[:, None, :]
        if causal:
            place = torch.arange(2 * length, device=own.device) - length
            visible = visible & (place <= torch.arange(length, device=own.device)[:, None])
        self.bias = torch.where(visible, 0.0, HIDDEN)
        """`[K, n, k·n]`: 0 at the rows of the same history, if causal up to the row itself."""
        self.blind = None if batch.present is None else ~visible.any(dim=-1).view(-1, 1)
        """`[T, 1]`: the rows that see nothing, which can be where some are absent."""

    def attend(self, projected: Tensor, heads: int) -> Tensor:
        """`[T, d]`: softmax(QKᵀ/√(d/h))·V of every head, from Q, K and V side by side."""
        width = projected.shape[-1] // 3
        windows = projected.view(self.count, self.length, 3 * width)
        query, own = windows.split((width, 2 * width), dim=-1)
        # The first window comes after the last one, and the two are hidden from each other.
        around = [own if to == 0 else own.roll(-to, 0) for to in self.reach]
        key, value = torch.cat(around, dim=1).chunk(2, dim=-1)
        query, key, value = (self._heads(rows, heads) for rows in (query, key, value))
        bias = self.bias.to(query.dtype)
        if heads > 1:
            bias = bias.repeat_interleave(heads, 0)
        scale = query.shape[-1] ** -0.5
        weights = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=scale).softmax(dim=-1)
        mixed = (weights @ value).view(self.count, heads, self.length, -1)
        mixed = mixed.transpose(1, 2).reshape(self.count * self.length, width)
        return mixed if self.blind is None else mixed.masked_fill(self.blind, 0)

    def _heads(self, rows: Tensor, heads: int) -> Tensor:
        """`[K, m, d]` to `[K·h, m, d/h]`."""
        if heads == 1:
            return rows
        windows, slots, width = rows.shape
        apart = rows.view(windows, slots, heads, width // heads).transpose(1, 2)
        return apart.reshape(windows * heads, slots, -1)
