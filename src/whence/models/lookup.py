"""Rows of a table of embeddings, where their gradient is what takes time."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def look_up(table: Tensor, items: Tensor) -> Tensor:
    """`[…, d]`: row `1 + i` of the table for item `i`; row 0, which never learns, for `PAD`."""
    rows = items[None] + 1
    # Rows of 32 bits are sorted in half the time.
    return _apply(table[None], rows.int() if rows.is_cuda else rows).squeeze(0)


def look_up_few(table: Tensor, rows: Tensor) -> Tensor:
    """`[T, d]`: rows of a table of few, such as positions."""
    if not rows.is_cuda:
        return F.embedding(rows, table)
    # A product, whose gradient needs no sorting of rows to come out the same each time.
    which = rows[:, None] == torch.arange(len(table), device=rows.device)
    return F.linear(which.to(table.dtype), table.T)


def _apply(tables: Tensor, rows: Tensor) -> Tensor:
    found: Tensor = _LookUp.apply(tables, rows)  # type: ignore[no-untyped-call]
    return found


class _LookUp(torch.autograd.Function):
    """From tables `[S, 1 + items, d]` and rows `[S, …]`; `vmap` brings more tables, and no loop."""

    @staticmethod
    def forward(tables: Tensor, rows: Tensor) -> Tensor:
        """As one long table."""
        return F.embedding(_in_one(tables, rows), tables.flatten(0, 1))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ANN401
        """Which rows were read decides the gradient; what was in them does not."""
        tables, rows = inputs
        ctx.save_for_backward(_in_one(tables, rows))
        ctx.shape = tables.shape

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        """What each row was read for, added up by the fastest way on each device."""
        (rows,) = ctx.saved_tensors
        seeds, count, width = ctx.shape
        if rows.is_cuda:  # where many threads must not add to one row in any order
            add_up = torch.ops.aten.embedding_dense_backward
            added = add_up(gradient, rows, seeds * count, 0, False)
        else:
            added = gradient.new_zeros(seeds * count, width)
            added.index_add_(0, rows.flatten(), gradient.flatten(0, -2))
        tables: Tensor = added.view(seeds, count, width)
        if seeds > 1 or not rows.is_cuda:
            tables[:, 0] = 0
        return tables, None

    @staticmethod
    def vmap(
        info: Any,  # noqa: ANN401
        in_dims: tuple[int, int],
        tables: Tensor,
        rows: Tensor,
    ) -> tuple[Tensor, int]:
        """`[S, 1, 1 + items, d]` and `[S, 1, …]`."""
        tables, rows = tables.movedim(in_dims[0], 0), rows.movedim(in_dims[1], 0)
        return _apply(tables.squeeze(1), rows.squeeze(1)).unsqueeze(1), 0


def _in_one(tables: Tensor, rows: Tensor) -> Tensor:
    """Where the rows of several tables are when the tables stand one below the other."""
    seeds, count = tables.shape[:2]
    if seeds == 1:
        return rows
    if seeds * count >= 2**31:
        rows = rows.long()
    first = torch.arange(0, seeds * count, count, device=rows.device, dtype=rows.dtype)
    return rows + first.view(-1, *[1] * (rows.dim() - 1))
