"""How weights follow their gradients: optimisers whose step can be recorded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from whence.training.config import TrainingConfig

FIRST_SUM = 1e-8
"""Of Adagrad's squares, so that nothing is divided by 0."""


class Adagrad(torch.optim.Optimizer):
    """Adagrad (Duchi et al. 2011): w ← w − η g / √(Σ g²).

    PyTorch's own takes the learning rate as a number, which a recorded step would never see change.
    """

    def __init__(self, weights: Iterable[Tensor], lr: Tensor) -> None:
        super().__init__(weights, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # noqa: ANN401
        """One step by the gradients there are."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            gradients = [weight.grad for weight in weights]
            sums = [self._sum(weight) for weight in weights]
            torch._foreach_addcmul_(sums, gradients, gradients)
            steps = torch._foreach_div(gradients, torch._foreach_sqrt(sums))
            torch._foreach_mul_(steps, group["lr"])
            torch._foreach_sub_(weights, steps)

    def _sum(self, weight: Tensor) -> Tensor:
        state = self.state[weight]
        if "sum" not in state:
            state["sum"] = torch.full_like(weight, FIRST_SUM)
        found: Tensor = state["sum"]
        return found


def optimiser_for(
    config: TrainingConfig, weights: Iterable[Tensor], device: str
) -> torch.optim.Optimizer:
    """The one that was asked for, with a learning rate that can be changed between steps."""
    pace = torch.tensor(config.learning_rate, device=device)
    if config.optimizer == "adagrad":
        return Adagrad(weights, pace)
    return torch.optim.Adam(
        weights,
        lr=pace,
        betas=(0.9, config.beta2),
        fused=True,
        capturable=device != "cpu",
    )
