"""Histories laid one after another in a single row, so that training computes no padding.

The row is cut into windows as long as the longest history. A history that ends in a window begins
there or in the window before, so each window attends to itself and the one before it, and a mask
keeps histories apart. No history is sorted into a bin, and no window has more than its share.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

BEFORE_ALL, AFTER_ALL = -1, -2
"""Stand for the history of a slot in front of the row, and behind it."""


@dataclass(frozen=True, eq=False)
class Packed:
    """`T` items of several histories, oldest first in each."""

    items: Tensor
    """`[T]`: catalog rows."""
    slots: Tensor
    """`[T]`: the slot it would have in a padded history, where the newest has the last."""
    histories: Tensor
    """`[T]`: which history it is of, in rising order."""

    def to(self, device: str) -> Packed:
        """The same on another device."""
        return Packed(self.items.to(device), self.slots.to(device), self.histories.to(device))


class Windows:
    """How packed histories, none longer than `length`, attend to themselves."""

    def __init__(self, histories: Tensor, length: int) -> None:
        self.rows, self.length = len(histories), length
        self.count = -(-self.rows // length)
        behind = self.count * length - self.rows
        padded = F.pad(histories, (0, behind), value=AFTER_ALL)
        query = padded.view(self.count, length, 1)
        key = self._two_windows(padded[:, None], BEFORE_ALL).view(self.count, 1, 2 * length)
        place = torch.arange(2 * length, device=histories.device) - length
        causal = place <= torch.arange(length, device=histories.device)[:, None]
        self.visible = ((query == key) & causal)[:, None]
        """`[K, 1, n, 2n]`: the rows of the same history up to the row itself."""

    def queries(self, rows: Tensor, heads: int) -> Tensor:
        """`[T, d]` to `[K, h, n, d/h]`."""
        return self._heads(self._padded(rows).view(self.count, self.length, -1), heads)

    def keys(self, rows: Tensor, heads: int) -> Tensor:
        """`[T, d]` to `[K, h, 2n, d/h]`: of each window and the one before it."""
        return self._heads(self._two_windows(self._padded(rows), 0.0), heads)

    def back(self, mixed: Tensor) -> Tensor:
        """`[K, h, n, d/h]` to `[T, d]`."""
        return mixed.transpose(1, 2).reshape(self.count * self.length, -1)[: self.rows]

    def _padded(self, rows: Tensor) -> Tensor:
        return F.pad(rows, (0, 0, 0, self.count * self.length - self.rows))

    def _two_windows(self, rows: Tensor, before: float) -> Tensor:
        """`[K·n, d]` to `[K, 2n, d]`."""
        own = rows.view(self.count, self.length, -1)
        former = torch.cat((torch.full_like(own[:1], before), own[:-1]))
        return torch.cat((former, own), dim=1)

    def _heads(self, rows: Tensor, heads: int) -> Tensor:
        windows, slots, width = rows.shape
        return rows.view(windows, slots, heads, width // heads).transpose(1, 2)
