"""Games with known solutions, as models that explainers can be applied to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np
import torch

from whence.arrays import Floats
from whence.contract import PAD, All, Explainable

Value = Callable[[torch.Tensor], torch.Tensor]
"""From the players present, bool `[R, n]`, to the value of each row."""


class Played(Explainable):
    """A model whose score is the value of a game, the same for each of its targets."""

    removal = "not in the game"

    def __init__(self, value: Value, targets: int = 10) -> None:
        self.value, self.targets = value, targets

    def parts(self, batch: torch.Tensor) -> torch.Tensor:
        return batch != PAD

    def score(
        self,
        batch: torch.Tensor,
        targets: torch.Tensor | All,
        *,
        present: torch.Tensor | None = None,
        embedded: torch.Tensor | None = None,
        attention: Sequence[torch.Tensor | None] | None = None,
    ) -> torch.Tensor:
        there = self.parts(batch) if present is None else self.parts(batch) & present
        count = self.targets if isinstance(targets, All) else targets.shape[1]
        return self.value(there)[:, None].expand(-1, count)


def attention_like(players: int, seed: int = 0) -> Value:
    """A softmax-weighted mean of vectors through a nonlinear function: nothing is additive."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(players, generator=generator, dtype=torch.float64)
    words = torch.randn(players, 6, generator=generator, dtype=torch.float64)
    heard = torch.randn(6, generator=generator, dtype=torch.float64)

    def value(present: torch.Tensor) -> torch.Tensor:
        weights = logits.exp() * present
        said = weights @ words / (0.5 + weights.sum(dim=1, keepdim=True))
        found: torch.Tensor = torch.tanh(3 * said) @ heard
        return found

    return value


def gloves(present: torch.Tensor) -> torch.Tensor:
    """Players 0 and 1 have a left glove, player 2 a right one; only a pair is worth anything."""
    return ((present[:, 0] | present[:, 1]) & present[:, 2]).double()


def shapley_by_orders(value: Value, players: int) -> Floats:
    """The definition: what each player adds, averaged over all n! orders."""
    phi = np.zeros(players)
    orders = list(permutations(range(players)))
    for order in orders:
        present = torch.zeros(1, players, dtype=torch.bool)
        before = float(value(present))
        for player in order:
            present[0, player] = True
            after = float(value(present))
            phi[player] += after - before
            before = after
    return phi / len(orders)


def history(players: int, cases: int = 1) -> torch.Tensor:
    """A batch in which every slot is a part."""
    return torch.arange(players).repeat(cases, 1)
