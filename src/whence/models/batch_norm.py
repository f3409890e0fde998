"""Batch normalisation of rows of which some are filling."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RealBatchNorm(nn.BatchNorm1d):
    """Its statistics are those of the rows that are real; filling is normalised along with them."""

    def forward(self, rows: Tensor, real: Tensor | None = None) -> Tensor:
        """Rows `[T, d]`; outside training by the statistics it remembers."""
        assert self.running_mean is not None
        assert self.running_var is not None
        if not self.training or real is None:
            return self._normal(rows, self.running_mean, self.running_var)
        count = real.sum()
        mean = (rows * real[:, None]).sum(dim=0) / count
        variance = ((rows - mean).square() * real[:, None]).sum(dim=0) / count
        self._remember(mean.detach(), variance.detach())
        return self._normal(rows, mean, variance)

    def _normal(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return torch.addcmul(self.bias, (rows - mean) * (variance + self.eps).rsqrt(), self.weight)

    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """In place, and without a number that would be asked for: steps are recorded."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share = self.num_batches_tracked.reciprocal() if self.momentum is None else self.momentum
        self.running_mean.add_((mean - self.running_mean) * share)
        self.running_var.add_((variance - self.running_var) * share)
