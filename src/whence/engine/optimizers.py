"""Optimizers whose learning rate is a tensor, so that recorded steps see it change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor

OptimizerName = Literal["adam", "adagrad"]
FIRST_SUM = 1e-8
"""The initial sum of Adagrad's squares, which avoids a division by 0."""


class Adagrad(torch.optim.Optimizer):
    """Adagrad (Duchi et al. 2011): w ← w − η g / √(Σ g²).

    PyTorch's own takes the learning rate as a number, and a recorded step would not see it change.
    """

    def __init__(self, weights: Iterable[Tensor], lr: Tensor) -> None:
        super().__init__(weights, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # noqa: ANN401
        """Update the weights that have a gradient."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            gradients = [weight.grad for weight in weights]
            sums = [self._sum(weight) for weight in weights]
            torch._foreach_addcmul_(sums, gradients, gradients)
            updates = torch._foreach_div(gradients, torch._foreach_sqrt(sums))
            torch._foreach_mul_(updates, group["lr"])
            torch._foreach_sub_(weights, updates)

    def _sum(self, weight: Tensor) -> Tensor:
        state = self.state[weight]
        if "sum" not in state:
            state["sum"] = torch.full_like(weight, FIRST_SUM)
        found: Tensor = state["sum"]
        return found


def recordable_optimizer(
    name: OptimizerName, weights: Iterable[Tensor], learning_rate: float, beta2: float, device: str
) -> torch.optim.Optimizer:
    """Return the optimizer of that name; `beta2` is Adam's."""
    lr = torch.tensor(learning_rate, device=device)
    if name == "adagrad":
        return Adagrad(weights, lr)
    return torch.optim.Adam(
        weights, lr=lr, betas=(0.9, beta2), fused=True, capturable=device != "cpu"
    )
