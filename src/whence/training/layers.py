"""Layers of several seeds that keep a GPU busy.

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

ROWS_OF_A_PART = 64


class ForManySeeds(TorchFunctionMode):
    """Inside `torch.vmap`, layers as they are best computed for a stack."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Linear layers and norms go their own way, and all else as ever."""
        for known, own in ((F.linear, _linear), (F.layer_norm, _layer_norm)):
            if func is known:
                func = own
        return func(*args, **(kwargs or {}))


def _layer_norm(
    rows: Tensor,
    shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """With the weight and the bias in one go."""
    normal = F.layer_norm(rows, shape, None, None, eps)
    if weight is None or bias is None:
        return normal if weight is None else normal * weight
    return torch.addcmul(bias, normal, weight)


def _linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    flat = rows.reshape(1, -1, rows.shape[-1])
    biases = None if bias is None else bias[None]
    return _apply(flat, weight[None], biases).squeeze(0).view(*rows.shape[:-1], -1)


def _apply(rows: Tensor, weights: Tensor, biases: Tensor | None) -> Tensor:
    out: Tensor = _Linear.apply(rows, weights, biases)  # type: ignore[no-untyped-call]
    return out


class _Linear(torch.autograd.Function):
    """`x Wᵀ + b` of the rows `[S, T, i]`, weights `[S, o, i]` and biases `[S, o]` of seeds."""

    @staticmethod
    def forward(rows: Tensor, weights: Tensor, biases: Tensor | None) -> Tensor:
        """All seeds' products at once."""
        if biases is None:
            return rows @ weights.transpose(1, 2)
        return torch.baddbmm(biases[:, None], rows, weights.transpose(1, 2))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401
        """Rows and weights are needed for each other's gradient."""
        rows, weights, biases = inputs
        ctx.save_for_backward(rows, weights)
        ctx.has_biases = biases is not None

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:  # noqa: ANN401
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
        of_biases = gradient.sum(dim=1).to(weights.dtype) if ctx.has_biases else None
        return of_rows.to(rows.dtype), of_weights.to(weights.dtype), of_biases

    @staticmethod
    def vmap(
        info: Any,  # noqa: ANN401
        in_dims: tuple[int | None, ...],
        *values: Tensor | None,
    ) -> tuple[Tensor, int]:
        """`[S, 1, T, i]`, `[S, 1, o, i]` and `[S, 1, o]`; rows may be the same for all seeds."""
        rows, weights, biases = (
            None
            if one is None
            else one.expand(info.batch_size, *one.shape).squeeze(1)
            if dim is None
            else one.movedim(dim, 0).squeeze(1)
            for one, dim in zip(values, in_dims, strict=True)
        )
        assert rows is not None
        assert weights is not None
        return _apply(rows, weights, biases).unsqueeze(1), 0
