"""The products of all experts of a layer, shelf by shelf, into one piece of memory.

Σ_j W_ij x_j + b_i of blocks `[blocks, w, R]`, for weights `[experts, outputs, what each reads]`.
PyTorch's own gradients would hold and move the pieces several times, which at these sizes takes as
long as the products.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from whence.experts.shelves import Joining


def joined_products(
    blocks: Tensor,
    own: Tensor | None,
    bias: Tensor | None,
    joining: Joining,
    stop: bool,
    *linked: Tensor,
) -> Tensor:
    """`[H, outputs, R]`: of each expert's `own` block, where it has one, and of those joined to it.

    With `stop`, gradients reach a block from its own expert alone.
    """
    # Products that are written into others have no half precision.
    halved = torch.is_autocast_enabled(blocks.device.type)
    if halved or torch._C._are_functorch_transforms_active():
        return _by_pieces(blocks, own, bias, joining, stop, *linked)
    out: Tensor = _Products.apply(  # type: ignore[no-untyped-call]
        blocks, own, bias, joining, stop, *linked
    )
    return out


class _Products(torch.autograd.Function):
    """Every product is written, or added, to where it belongs in the one result."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        blocks: Tensor,
        own: Tensor | None,
        bias: Tensor | None,
        joining: Joining,
        stop: bool,
        *linked: Tensor,
    ) -> Tensor:
        """Σ_j W_ij x_j + b_i."""
        ctx.joining, ctx.stop = joining, stop
        read = [joining.read(number, blocks) for number in range(len(linked))]
        ctx.save_for_backward(blocks, own, *linked, *read)
        if own is None:
            out = blocks.new_empty(joining.experts, linked[0].shape[1], blocks.shape[2])
        else:
            out = torch.bmm(own, blocks)
        for shelf, weight, rows in zip(joining.shelves, linked, read, strict=True):
            piece = out[shelf.experts]
            if own is None:
                torch.bmm(weight, rows, out=piece)
            else:
                piece.baddbmm_(weight, rows)
        return out if bias is None else out.add_(bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: ANN401
        """To weights, and to blocks from those they are allowed to learn from."""
        joining: Joining = ctx.joining
        blocks, own, *rest = ctx.saved_tensors
        linked, read = rest[: len(joining)], rest[len(joining) :]
        if torch.is_grad_enabled():  # who asks for second derivatives follows what was read
            held = blocks.detach() if ctx.stop else blocks
            read = [joining.read(number, held) for number in range(len(linked))]
        some = [gradient[shelf.experts] for shelf in joining.shelves]
        of_links = [torch.bmm(one, rows.mT) for one, rows in zip(some, read, strict=True)]
        of_own = None if own is None else torch.bmm(gradient, blocks.mT)
        of_bias = gradient.sum(dim=2, keepdim=True) if ctx.needs_input_grad[2] else None
        back = None
        if ctx.needs_input_grad[0]:
            back = torch.zeros_like(blocks) if own is None else torch.bmm(own.mT, gradient)
            if not ctx.stop:
                for number, (one, weight) in enumerate(zip(some, linked, strict=True)):
                    joining.give_back(number, torch.bmm(weight.mT, one), back)
        return back, of_own, of_bias, None, None, *of_links


def _by_pieces(
    blocks: Tensor,
    own: Tensor | None,
    bias: Tensor | None,
    joining: Joining,
    stop: bool,
    *linked: Tensor,
) -> Tensor:
    """The same in steps that `torch.func` can map over seeds and differentiate."""
    held = blocks.detach() if stop else blocks
    pieces = [torch.bmm(weight, joining.read(number, held)) for number, weight in enumerate(linked)]
    if own is None:
        out = torch.cat(pieces)
    else:
        out = torch.bmm(own, blocks)
        for shelf, piece in zip(joining.shelves, pieces, strict=True):
            out[shelf.experts] += piece
    return out if bias is None else out + bias
