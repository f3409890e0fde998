"""Shapley values as they are defined: what a player brings to those before it, over orders."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from whence.explainers.sampling import Design


class MarginalContributions:
    """The mean over orders of v(those up to j) − v(those before j).

    An order and its reverse make one draw: where one meets a player early, the other meets it late.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        players = design.coalitions.shape[1]
        begun = design.coalitions.view(-1, 2, players - 1, players).int()  # [m, 2, n − 1, n]
        # How many of an order's beginnings have a player tells its place: all have the first.
        self.place = players - 1 - begun.sum(dim=2)  # [m, 2, n]

    def __call__(self, values: Tensor, empty: Tensor, full: Tensor) -> tuple[Tensor, Tensor]:
        """`[B, n]` each: φ and its standard errors, from values `[B, c]`."""
        orders, _, players = self.place.shape
        inner = values.view(-1, orders, 2, players - 1)
        begun = F.pad(inner, (1, 1))
        begun[..., 0] = empty[:, None, None]
        begun[..., -1] = full[:, None, None]
        place = self.place.to(values.device).expand(len(values), -1, -1, -1)
        brought = begun.diff(dim=-1).gather(-1, place)  # [B, m, 2, n], by player
        of_draw = brought.mean(dim=2)
        phi = of_draw.mean(dim=1)
        return phi, of_draw.std(dim=1) / orders**0.5
