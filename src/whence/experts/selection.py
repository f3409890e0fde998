"""Which expert is selected: the simplest that is sure, α_i = g_i · Π_{j ∈ ω(i)} (1 − g_j)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from whence.config import require_choice
from whence.errors import InputError
from whence.experts.family import Family

Shape = Literal["absolute", "square", "power"]


@dataclass(frozen=True)
class Confidence:
    """g: how sure an expert is, from 0 to 1, of its answer's distance u from knowing nothing.

    "absolute" is u, "square" u², and "power" u^p/(1 + u^{p−1}), each divided by its value at the
    largest distance: |F|, F² and 2|F|^p/(1 + |F|^{p−1}) for tanh.
    """

    shape: Shape = "square"
    power: float = 4.0

    def __post_init__(self) -> None:
        require_choice("shape", self.shape, Shape)
        if not self.power > 1:
            raise InputError(f"The power of a confidence is above 1, not {self.power:g}.")

    def __call__(self, distance: Tensor, reach: float = 1.0) -> Tensor:
        """`[H, R]`: g of every expert."""
        if self.shape == "absolute":
            return distance / reach
        if self.shape == "square":
            return (distance / reach).square()
        most = reach**self.power / (1 + reach ** (self.power - 1))
        sure: Tensor = distance.pow(self.power) / (1 + distance.pow(self.power - 1)) / most
        return sure


@dataclass(frozen=True)
class Selection:
    """How experts' confidences become the weights of their answers."""

    confidence: Confidence = Confidence()
    own: bool = True
    """Whether α_i has its factor g_i: always in use; in training by the text, not by the code."""

    def __call__(self, family: Family, distance: Tensor, reach: float = 1.0) -> Tensor:
        """`[H, R]`: α of every expert."""
        sure = self.confidence(distance, reach)
        inside = _inclusion(family.contained, sure.device)
        left: Tensor = torch.where(inside, 1 - sure, 1.0).prod(dim=1)
        return sure * left if self.own else left


@cache
@torch.inference_mode(False)
def _inclusion(contained: tuple[tuple[int, ...], ...], device: torch.device) -> Tensor:
    """`[H, H, 1]`: whether the second expert lies strictly inside the first.

    Kept where it is needed: a GPU that records a step can copy nothing to itself.
    """
    experts = range(len(contained))
    return torch.tensor([[[j in inside] for j in experts] for inside in contained], device=device)
