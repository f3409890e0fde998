"""Batch normalisation of rows of which some are filling."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Real(NamedTuple):
    """Which rows of a batch are real, as statistics need to know it."""

    share: Tensor
    """`[T]`: r, the share of each row in a mean; filling has none."""
    of_all: Tensor
    """n / (n − 1), from the variance of these rows to that of all there might be."""

    @classmethod
    def of(cls, real: Tensor, dtype: torch.dtype) -> Real:
        """From a mask `[T]`, once for all layers."""
        count = real.sum().clamp(min=1).to(dtype)
        return cls(real / count, count / (count - 1).clamp(min=1))


class RealBatchNorm(nn.BatchNorm1d):
    """Its statistics are those of the rows that are real; filling is normalised along with them."""

    def forward(self, rows: Tensor, real: Real | None = None) -> Tensor:
        """Rows `[T, d]`; outside training by the statistics it remembers."""
        assert self.running_mean is not None
        assert self.running_var is not None
        if not self.training or real is None:
            normal = (rows - self.running_mean) * (self.running_var + self.eps).rsqrt()
            return torch.addcmul(self.bias, normal, self.weight)
        with torch.autocast(rows.device.type, enabled=False):  # statistics need all digits
            found = _Normal.apply(  # type: ignore[no-untyped-call]
                rows.to(self.weight.dtype), real.share, self.weight, self.bias, self.eps
            )
        out: Tensor = found[0]
        self._remember(found[1], found[2], real.of_all)
        return out

    def _remember(self, mean: Tensor, variance: Tensor, of_all: Tensor) -> None:
        """In place, and without a number that would be asked for: steps are recorded."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        for remembered, new in ((self.running_mean, mean), (self.running_var, variance * of_all)):
            if self.momentum is None:
                remembered.add_((new - remembered) / self.num_batches_tracked)
            else:  # `lerp_` would be one kernel less, but not for several seeds
                remembered.mul_(1 - self.momentum).add_(new, alpha=self.momentum)


class _Normal(torch.autograd.Function):
    """x̂ = (x − μ) / √(σ² + ε), scaled and shifted, with a gradient of few kernels.

    With μ = Σ rᵢ xᵢ and σ² = Σ rᵢ (xᵢ − μ)², the gradient of x is
    w / √(σ² + ε) · (g − r (Σ g + x̂ Σ g x̂)).
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        rows: Tensor, share: Tensor, weight: Tensor, bias: Tensor, eps: float
    ) -> tuple[Tensor, ...]:
        """The rows, their mean and their variance; x̂ and 1 / √(σ² + ε) for the gradient."""
        mean = share @ rows
        centred = rows - mean
        variance = share @ centred.square()
        inverse = (variance + eps).rsqrt()
        normal = centred * inverse
        return torch.addcmul(bias, normal, weight), mean, variance, normal, inverse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401
        """Statistics are no outputs to learn by."""
        _rows, share, weight, _bias, _eps = inputs
        _, *statistics, normal, inverse = output
        ctx.save_for_backward(share, weight, normal, inverse)
        ctx.mark_non_differentiable(*statistics, normal, inverse)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, of_out: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Of rows, weight and bias."""
        share, weight, normal, inverse = ctx.saved_tensors
        of_bias, of_weight = of_out.sum(dim=0), (of_out * normal).sum(dim=0)
        pulled = torch.addcmul(of_bias, normal, of_weight) * share[:, None]
        return (weight * inverse) * (of_out - pulled), None, of_weight, of_bias, None
