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
    out: Tensor = _Products.apply(  # type: ignore[no-untyped-call]
        blocks, own, bias, joining, stop, *linked
    )
    return out


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(
        blocks: Tensor,
        own: Tensor | None,
        bias: Tensor | None,
        joining: Joining,
        stop: bool,
        *linked: Tensor,
    ) -> Tensor:
        if own is not None:
            out = _product(own, blocks, bias)
            for number, weight in enumerate(linked):
                out[joining.shelves[number].experts].baddbmm_(weight, joining.read(number, blocks))
            return out
        out = linked[0].new_empty(joining.experts, linked[0].shape[1], blocks.shape[2])
        for number, weight in enumerate(linked):
            experts = joining.shelves[number].experts
            some = None if bias is None else bias[experts]
            _product(weight, joining.read(number, blocks), some, out=out[experts])
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ANN401
        """Keep what gradients are made of."""
        blocks, own, _, ctx.joining, ctx.stop, *linked = inputs
        ctx.save_for_backward(blocks, own, *linked)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: ANN401
        blocks, own, *linked = ctx.saved_tensors
        joining: Joining = ctx.joining
        back = None
        if ctx.needs_input_grad[0]:
            back = torch.zeros_like(blocks) if own is None else torch.bmm(own.mT, gradient)
        of_links: list[Tensor] = []
        for number, weight in enumerate(linked):
            some = gradient[joining.shelves[number].experts]
            of_links.append(torch.bmm(some, joining.read(number, blocks).mT))
            if back is not None and not ctx.stop:
                back = joining.give_back(number, torch.bmm(weight.mT, some), back)
        of_own = None if own is None else torch.bmm(gradient, blocks.mT)
        of_bias = gradient.sum(dim=2, keepdim=True) if ctx.needs_input_grad[2] else None
        return back, of_own, of_bias, None, None, *of_links

    @staticmethod
    def vmap(info: Any, in_dims: Any, *inputs: Any) -> tuple[Tensor, int]:  # noqa: ANN401
        """Several seeds at once: `vmap` cannot write into a given piece of memory."""
        return torch.vmap(_by_pieces, in_dims=in_dims)(*inputs), 0


def _by_pieces(
    blocks: Tensor,
    own: Tensor | None,
    bias: Tensor | None,
    joining: Joining,
    stop: bool,
    *linked: Tensor,
) -> Tensor:
    """The same in steps that PyTorch can map and differentiate itself."""
    held = blocks.detach() if stop else blocks
    pieces = [torch.bmm(weight, joining.read(number, held)) for number, weight in enumerate(linked)]
    if own is None:
        out = torch.cat(pieces)
    else:
        out = torch.bmm(own, blocks)
        for shelf, piece in zip(joining.shelves, pieces, strict=True):
            out[shelf.experts] += piece
    return out if bias is None else out + bias


def _product(
    weight: Tensor, read: Tensor, bias: Tensor | None, out: Tensor | None = None
) -> Tensor:
    """W x + b."""
    if bias is None:
        return torch.bmm(weight, read, out=out)
    return torch.baddbmm(bias, weight, read, out=out)
