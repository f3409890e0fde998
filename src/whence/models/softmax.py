"""The denominator of a softmax over all items, in memory that does not grow with their number.

Of `M` rows and `I` items, `M × I` logits are computed, a chunk of the items at a time. Where all of
them are one chunk they are kept for the gradient, and otherwise computed once more.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

AT_ONCE, AT_ONCE_ON_GPU = 2**25, 2**29
"""Logits in memory at a time, on a processor and on a GPU."""


def log_sum_exp(rows: Tensor, table: Tensor, at_once: int | None = None) -> Tensor:
    """`[M]`: log Σ_i exp(h · e_i) of rows `h` `[M, d]`, over the items of the table `[1 + I, d]`.

    Row 0 of the table pads: it is no item, and learns nothing. With `h · e_i` taken from it, it
    leaves −log softmax.
    """
    device = rows.device.type
    if torch.is_autocast_enabled(device):
        half = torch.get_autocast_dtype(device)
        rows, table = rows.to(half), table.to(half)
    if at_once is None:
        at_once = AT_ONCE_ON_GPU if rows.is_cuda else AT_ONCE
    return _apply(rows[None], table[None], at_once)[0].squeeze(0)


def _apply(rows: Tensor, tables: Tensor, at_once: int) -> tuple[Tensor, Tensor, Tensor]:
    found: tuple[Tensor, Tensor, Tensor] = _LogSumExp.apply(  # type: ignore[no-untyped-call]
        rows, tables, at_once
    )
    return found


class _LogSumExp(torch.autograd.Function):
    """Of rows `[S, M, d]` and tables `[S, 1 + I, d]`; `vmap` brings more of them, and no loop."""

    @staticmethod
    def forward(rows: Tensor, tables: Tensor, at_once: int) -> tuple[Tensor, Tensor, Tensor]:
        """`[S, M]`, the largest logit `[S, M, 1]`, and exp(logit − largest) if it is to be kept."""
        wide = torch.promote_types(rows.dtype, torch.float32)
        peaks = rows.new_full((*rows.shape[:2], 1), -torch.inf, dtype=wide)
        total = torch.zeros_like(peaks)
        kept = rows.new_empty(0)
        chunks = _chunks(rows, tables, at_once)
        for items in chunks:
            logits = torch.bmm(rows, tables[:, items].transpose(1, 2))
            higher = torch.maximum(peaks, logits.amax(dim=-1, keepdim=True))
            exps = _exps(logits, higher)
            total = total * (peaks - higher).exp() + exps.sum(dim=-1, keepdim=True)
            peaks = higher
            if len(chunks) == 1:
                kept = exps.to(rows.dtype)
        return (peaks + total.log()).squeeze(-1), peaks, kept

    @staticmethod
    def setup_context(
        ctx: Any,  # noqa: ANN401
        inputs: tuple[Tensor, Tensor, int],
        output: tuple[Tensor, Tensor, Tensor],
    ) -> None:
        """Whatever was not kept can be computed from these again."""
        rows, tables, ctx.at_once = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # which would be zeros in the shape of what is kept
        ctx.save_for_backward(rows, tables, *output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, None]:  # noqa: ANN401
        """Σ_i p_i e_i for a row and Σ p_i h for an item, where p is the softmax."""
        rows, tables, sums, peaks, kept = ctx.saved_tensors
        # What exp(logit − largest) lacks to be p is a factor of the row, and so is the gradient.
        factor = gradient[..., None] * (peaks - sums[..., None]).exp()
        weighted = (rows * factor).to(rows.dtype)
        of_rows = torch.zeros_like(rows, dtype=factor.dtype)
        of_tables = torch.empty_like(tables)
        of_tables[:, 0] = 0
        for items in _chunks(rows, tables, ctx.at_once):
            exps = kept
            if not kept.numel():
                exps = _exps(torch.bmm(rows, tables[:, items].transpose(1, 2)), peaks)
                exps = exps.to(rows.dtype)
            of_rows += torch.bmm(exps, tables[:, items])
            torch.bmm(exps.transpose(1, 2), weighted, out=of_tables[:, items])
        return (of_rows * factor).to(rows.dtype), of_tables, None

    @staticmethod
    def vmap(
        info: Any,  # noqa: ANN401
        in_dims: tuple[int, int, None],
        rows: Tensor,
        tables: Tensor,
        at_once: int,
    ) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[int, int, int | None]]:
        """`[S, 1, M, d]` and `[S, 1, 1 + I, d]`."""
        rows, tables = rows.movedim(in_dims[0], 0), tables.movedim(in_dims[1], 0)
        sums, peaks, kept = _apply(rows.squeeze(1), tables.squeeze(1), at_once)
        return (sums.unsqueeze(1), peaks.unsqueeze(1), kept), (0, 0, None)


def _chunks(rows: Tensor, tables: Tensor, at_once: int) -> list[slice]:
    """The items, so many at a time that no more than `at_once` logits come of them."""
    size = max(1, at_once // (rows.shape[0] * rows.shape[1]))
    end = tables.shape[1]
    return [slice(start, min(start + size, end)) for start in range(1, end, size)]


def _exps(logits: Tensor, peaks: Tensor) -> Tensor:
    """exp(logit − largest), in the place of the logits where they are wide enough."""
    return logits.to(peaks.dtype).sub_(peaks).exp_()
