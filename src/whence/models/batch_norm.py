"""Batch normalisation of rows of which some are filling."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class RealBatchNorm(nn.BatchNorm1d):
    """Its statistics are those of the rows that are real; filling is normalised along with them."""

    def forward(self, rows: Tensor, real: Tensor | None = None) -> Tensor:
        """Rows `[T, d]`; outside training by the statistics it remembers."""
        assert self.running_mean is not None
        assert self.running_var is not None
        if not self.training or real is None:
            normal = (rows - self.running_mean) * (self.running_var + self.eps).rsqrt()
            return torch.addcmul(self.bias, normal, self.weight)
        count = real.sum()
        share = real.to(rows.dtype) / count  # r, the share of each row in a mean
        found = _Normal.apply(rows, share, self.weight, self.bias, self.eps)  # type: ignore[no-untyped-call]
        normal, mean, variance = found
        # The variance of all rows there might be, as PyTorch's own remembers it.
        of_all = variance.detach() * (count / (count - 1).clamp(min=1))
        self._remember(mean.detach(), of_all)
        normal_rows: Tensor = normal
        return normal_rows

    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """In place, and without a number that would be asked for: steps are recorded."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share = self.num_batches_tracked.reciprocal() if self.momentum is None else self.momentum
        # `lerp_` would be one kernel less, but not for several seeds.
        self.running_mean.add_((mean - self.running_mean) * share)
        self.running_var.add_((variance - self.running_var) * share)


class _Normal(torch.autograd.Function):
    """x̂ = (x − μ) / √(σ² + ε), scaled and shifted, with a gradient of few kernels.

    With μ = Σ rᵢ xᵢ and σ² = Σ rᵢ (xᵢ − μ)², the gradient of x is
    w / √(σ² + ε) · (g − r (Σ g + x̂ Σ g x̂)).
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        rows: Tensor, share: Tensor, weight: Tensor, bias: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The rows, their mean and their variance."""
        mean = share @ rows
        centred = rows - mean
        variance = share @ centred.square()
        normal = centred * (variance + eps).rsqrt()
        return torch.addcmul(bias, normal, weight), mean, variance

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401
        """What x̂ is worked out from again."""
        rows, share, weight, _bias, eps = inputs
        _, mean, variance = output
        ctx.save_for_backward(rows, share, weight, mean, variance)
        ctx.eps = eps
        ctx.mark_non_differentiable(mean, variance)

    @staticmethod
    def backward(ctx: Any, of_out: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Of rows, weight and bias."""
        rows, share, weight, mean, variance = ctx.saved_tensors
        inverse = (variance + ctx.eps).rsqrt()
        normal = (rows - mean) * inverse
        of_bias, of_weight = of_out.sum(dim=0), (of_out * normal).sum(dim=0)
        pulled = torch.addcmul(of_bias, normal, of_weight) * share[:, None]
        return (weight * inverse) * (of_out - pulled), None, of_weight, of_bias, None
