"""Linear layers of several seeds, with a gradient that keeps a GPU busy.

The gradient of a weight is a sum over all rows of a batch. PyTorch gives one seed's sum to few
threads when it is one of a stack, and they take most of a step; cut into parts it goes to many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

ROWS_OF_A_PART = 128


class SummedInParts(TorchFunctionMode):
    """Inside `torch.vmap`, every linear layer has its weight's gradient summed in parts."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Linear layers go their own way, and all else as ever."""
        if func is F.linear:
            return _linear(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    flat = rows.reshape(1, -1, rows.shape[-1])
    out = _apply(flat, weight[None]).squeeze(0).view(*rows.shape[:-1], -1)
    return out if bias is None else out + bias


def _apply(rows: Tensor, weights: Tensor) -> Tensor:
    out: Tensor = _Linear.apply(rows, weights)  # type: ignore[no-untyped-call]
    return out


class _Linear(torch.autograd.Function):
    """`x Wᵀ` of the rows `[S, T, i]` and the weights `[S, o, i]` of several seeds."""

    @staticmethod
    def forward(rows: Tensor, weights: Tensor) -> Tensor:
        """All seeds' products at once."""
        return rows @ weights.transpose(1, 2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ANN401
        """Both are needed for each other's gradient."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        """Of the rows, and of the weights in parts."""
        rows, weights = ctx.saved_tensors
        of_rows = gradient @ weights.to(gradient.dtype)
        seeds, count, width = rows.shape
        parts = next(n for n in range(count // ROWS_OF_A_PART or 1, 0, -1) if count % n == 0)
        left, right = (
            values.reshape(seeds * parts, count // parts, -1)
            for values in (gradient, rows.to(gradient.dtype))
        )
        of_weights = (left.transpose(1, 2) @ right).view(seeds, parts, -1, width).sum(dim=1)
        return of_rows.to(rows.dtype), of_weights.to(weights.dtype)

    @staticmethod
    def vmap(
        info: Any,  # noqa: ANN401
        in_dims: tuple[int, int],
        rows: Tensor,
        weights: Tensor,
    ) -> tuple[Tensor, int]:
        """`[S, 1, T, i]` and `[S, 1, o, i]`."""
        rows, weights = rows.movedim(in_dims[0], 0), weights.movedim(in_dims[1], 0)
        return _apply(rows.squeeze(1), weights.squeeze(1)).unsqueeze(1), 0
