"""A small model of classes that looks at a history with the target in mind, and its plain twin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from whence.contract import ALL, PAD, All, Explainable

ITEMS, WIDTH = 30, 4


class Liking(nn.Module, Explainable):
    """Attention e^z / (Σ e^z)^β over the history, whose sum is not 1, pooled by the target."""

    removal = "dropped"

    def __init__(self, classes: int = 2, seed: int = 0, beta: float = 0.8) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)

        def drawn(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))

        self.history, self.target = drawn(ITEMS, WIDTH), drawn(ITEMS, WIDTH)
        self.out, self.bias = drawn(WIDTH, classes), drawn(ITEMS, classes)
        self.beta = beta

    def parts(self, batch: torch.Tensor) -> torch.Tensor:
        return batch != PAD

    def attentions(self, batch: torch.Tensor, targets: torch.Tensor) -> list[torch.Tensor]:
        return [self._weights(batch, targets[:, None])[:, :, None]]

    def classes(
        self,
        batch: torch.Tensor,
        targets: torch.Tensor,
        *,
        attention: Sequence[torch.Tensor | None] | None = None,
    ) -> torch.Tensor:
        (given,) = attention or [None]
        weights = self._weights(batch, targets) if given is None else given[:, :, -1]
        assert (weights.masked_fill(self.parts(batch)[:, None], 0) == 0).all(), "padding has none"
        pooled = weights @ self.history[batch.clamp(min=0)]
        return (pooled * self.target[targets]) @ self.out + self.bias[targets]

    def score(
        self,
        batch: torch.Tensor,
        targets: torch.Tensor | All,
        *,
        present: torch.Tensor | None = None,
        embedded: torch.Tensor | None = None,
        attention: Sequence[torch.Tensor | None] | None = None,
    ) -> torch.Tensor:
        if targets is ALL:
            targets = torch.arange(ITEMS, device=batch.device).expand(len(batch), -1)
        return self.classes(batch, targets, attention=attention).softmax(dim=2)[..., 0].logit()

    def _weights(self, batch: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        z = self.target[targets] @ self.history[batch.clamp(min=0)].mT
        weights = z.exp() * self.parts(batch)[:, None]
        return weights / weights.sum(dim=2, keepdim=True).clamp(min=1e-300) ** self.beta


def plain_weights(model: Liking, items: list[int], target: int) -> list[float]:
    """The attention to the items of a history without padding."""
    history, wanted = _numbers(model.history), _numbers(model.target)[target]
    powers = [math.exp(sum(a * b for a, b in zip(history[j], wanted, strict=True))) for j in items]
    return [power / sum(powers) ** model.beta for power in powers]


def plain_probabilities(
    model: Liking, items: list[int], target: int, weights: list[float]
) -> list[float]:
    """What the model says of a target, number by number."""
    history, wanted = _numbers(model.history), _numbers(model.target)[target]
    out, bias = _numbers(model.out), _numbers(model.bias)[target]
    pooled = [
        wanted[d] * sum(weight * history[j][d] for j, weight in zip(items, weights, strict=True))
        for d in range(WIDTH)
    ]
    powers = [
        math.exp(bias[c] + sum(pooled[d] * out[d][c] for d in range(WIDTH)))
        for c in range(len(bias))
    ]
    return [power / sum(powers) for power in powers]


def _numbers(weights: torch.Tensor) -> Any:  # noqa: ANN401
    return weights.tolist()


def items_of(row: torch.Tensor) -> list[int]:
    """Without the padding."""
    return [item for item in row.tolist() if item != PAD]


def candidates(
    cases: int, count: int, classes: int = 2, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """`[cases, count]`: targets and their true classes."""
    rng = np.random.default_rng(seed)
    drawn: list[npt.NDArray[np.int64]] = [
        rng.integers(0, most, (cases, count)) for most in (ITEMS, classes)
    ]
    targets, true = map(torch.from_numpy, drawn)
    return targets, true
