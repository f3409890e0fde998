"""Embedding look-ups with a fast gradient, which takes most of the time of a look-up."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.models.tasks import Batch


class EmbeddedBatch(NamedTuple):
    """The embeddings of a batch's items."""

    inputs: Tensor
    """`[T, d]`"""
    targets: tuple[Tensor, ...]
    """The positives and, if questions have their own, the negatives: `[M, 2, d]`, or each `[M, d]`.

    The shape depends on the order of the look-up. A sum over another shape would be rounded in
    another way, and the weights of a seed must stay the same bits.
    """
    shared: Tensor | None
    """`[K, d]`: the negatives that all questions share, if there are any."""

    def scores(self, rows: Tensor) -> list[Tensor]:
        """Return `[M]` h · e of the positives, then of the negatives, for the rows h `[M, d]`."""
        if self.targets[0].dim() == 2:
            return [(rows * one).sum(dim=-1) for one in self.targets]
        return [*(self.targets[0] * rows[:, None]).sum(dim=-1).unbind(-1)]


def look_up_batch(table: Tensor, batch: Batch) -> EmbeddedBatch:
    """Look up all items of a batch at once, which makes one gradient of the table."""
    items = batch.inputs.items
    targets = [batch.positives] if batch.negatives is None else [batch.positives, batch.negatives]
    if batch.rows is None:  # every row has a question
        asked = torch.stack((items, *targets), dim=1).flatten()
    else:
        asked = torch.cat((items, *targets))
    shared = None
    if batch.shared is None:
        found = look_up(table, asked)
    else:
        both = look_up(table, torch.cat((asked, batch.shared)))
        found, shared = both.split((len(asked), len(batch.shared)))
    if batch.rows is None:
        by_row = found.view(len(items), 1 + len(targets), -1)
        inputs, by_question = by_row.split((1, len(targets)), dim=1)
        return EmbeddedBatch(inputs[:, 0], (by_question,), shared)
    inputs, *each = found.split([len(items), *map(len, targets)])
    return EmbeddedBatch(inputs, tuple(each), shared)


def look_up(table: Tensor, items: Tensor) -> Tensor:
    """Return `[…, d]`: row `1 + i` of the table for item `i`, and row 0 for `PAD`.

    Row 0 gets no gradient.
    """
    rows = items[None] + 1
    # A GPU sorts 32-bit rows in half the time.
    return _apply(table[None], rows.int() if rows.is_cuda else rows).squeeze(0)


def look_up_few(table: Tensor, rows: Tensor) -> Tensor:
    """Return `[T, d]`: rows of a small table, such as positions."""
    if not rows.is_cuda:
        return F.embedding(rows, table)
    # The gradient of a product is deterministic without sorting the rows.
    which = rows[:, None] == torch.arange(len(table), device=rows.device)
    return F.linear(which.to(table.dtype), table.T)


def _apply(tables: Tensor, rows: Tensor) -> Tensor:
    found: Tensor = _LookUp.apply(tables, rows)  # type: ignore[no-untyped-call]
    return found


class _LookUp(torch.autograd.Function):
    """Rows `[S, …]` of tables `[S, 1 + items, d]`; `vmap` adds tables, without a loop."""

    @staticmethod
    def forward(tables: Tensor, rows: Tensor) -> Tensor:
        """Look up all rows in one long table."""
        return F.embedding(_in_one(tables, rows), tables.flatten(0, 1))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ANN401
        """Keep the rows; the gradient does not depend on their values."""
        tables, rows = inputs
        ctx.save_for_backward(_in_one(tables, rows))
        ctx.shape = tables.shape

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        """Add up the gradients of each row, in the fastest way of each device."""
        (rows,) = ctx.saved_tensors
        seeds, count, dim = ctx.shape
        if rows.is_cuda:  # deterministic although many threads add to one row
            add_up = torch.ops.aten.embedding_dense_backward
            added = add_up(gradient, rows, seeds * count, 0, False)
        else:
            added = gradient.new_zeros(seeds * count, dim)
            added.index_add_(0, rows.flatten(), gradient.flatten(0, -2))
        tables: Tensor = added.view(seeds, count, dim)
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
        """Take `[S, 1, 1 + items, d]` and `[S, 1, …]`."""
        tables, rows = tables.movedim(in_dims[0], 0), rows.movedim(in_dims[1], 0)
        return _apply(tables.squeeze(1), rows.squeeze(1)).unsqueeze(1), 0


def _in_one(tables: Tensor, rows: Tensor) -> Tensor:
    """Return where the rows are if the tables follow one another in a single table."""
    seeds, count = tables.shape[:2]
    if seeds == 1:
        return rows
    if seeds * count >= 2**31:
        rows = rows.long()
    first = torch.arange(0, seeds * count, count, device=rows.device, dtype=rows.dtype)
    return rows + first.view(-1, *[1] * (rows.dim() - 1))
