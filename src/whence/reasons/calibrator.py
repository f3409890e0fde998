"""The probability that each reason of a recommendation is the right one."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from whence.reasons.features import Features

GENERAL_KINDS: Final = ("taste", "popularity", "none")
HIDDEN: Final = 32


class Beliefs(NamedTuple):
    """Log-probabilities of all reasons of a target; they sum to 1."""

    items: Tensor
    """`[U, k, c]`."""
    sets: Tensor
    """`[U, k, p]`."""
    general: Tensor
    """`[U, k, 3]`: taste, popularity, none of these."""


class Calibrator(nn.Module):
    """Scores every possible reason by a small network, and compares them by a softmax."""

    def __init__(self, sizes: tuple[int, int, int], hidden: int = HIDDEN) -> None:
        super().__init__()
        of_item, of_set, of_general = sizes
        self.scale = nn.ParameterList()
        self.item = _network(of_item + of_general, hidden, 1)
        self.set = _network(of_set + of_general, hidden, 1)
        self.general = _network(of_general, hidden, len(GENERAL_KINDS))
        for name, size in zip(("items", "sets", "all"), sizes, strict=True):
            self.register_buffer(f"mean_{name}", torch.zeros(size))
            self.register_buffer(f"std_{name}", torch.ones(size))

    def fit_scale(self, features: Features) -> None:
        for name, values, known in (
            ("items", features.items, features.known_items),
            ("sets", features.sets, features.known_sets),
            ("all", features.general, torch.ones_like(features.general[..., 0], dtype=torch.bool)),
        ):
            some = values[known]
            if len(some):
                getattr(self, f"mean_{name}").copy_(some.mean(dim=0))
                getattr(self, f"std_{name}").copy_(some.std(dim=0).clamp(min=1e-3))

    def _scaled(self, name: str, values: Tensor) -> Tensor:
        mean, std = getattr(self, f"mean_{name}"), getattr(self, f"std_{name}")
        return ((values - mean) / std).clamp(-5, 5)

    def forward(self, features: Features) -> Beliefs:
        general = self._scaled("all", features.general)
        items, sets = (
            self._scaled(n, v) for n, v in (("items", features.items), ("sets", features.sets))
        )

        def with_general(values: Tensor) -> Tensor:
            spread = general[..., None, :].expand(*values.shape[:-1], general.shape[-1])
            return torch.cat((values, spread), dim=-1)

        of_items = self.item(with_general(items))[..., 0].masked_fill(
            ~features.known_items, -torch.inf
        )
        of_sets = self.set(with_general(sets))[..., 0].masked_fill(~features.known_sets, -torch.inf)
        logits = torch.cat((of_items, of_sets, self.general(general)), dim=-1)
        c, p = of_items.shape[-1], of_sets.shape[-1]
        return Beliefs(*logits.log_softmax(dim=-1).split((c, p, len(GENERAL_KINDS)), dim=-1))


def _network(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.GELU(),
        nn.Linear(hidden, hidden),
        nn.GELU(),
        nn.Linear(hidden, outputs),
    )
