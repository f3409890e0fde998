"""Chance: the control every explainer must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from whence.explainers.base import Attribution, Inquiry
from whence.explainers.contents import uniform_by_case
from whence.randomness import Randomness


@dataclass(frozen=True)
class Random:
    """A number drawn for each part, the same for the same case and seed."""

    method: ClassVar[str] = "random"
    needs: ClassVar[tuple[str, ...]] = ("parts",)
    signed: ClassVar[bool] = False
    cost: ClassVar[str] = "0"
    words: ClassVar[str] = "Nothing: a throw of dice, to compare the others with."

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """The target counts as one more part of the case, before the others."""
        stream = Randomness(inquiry.seed).sequence("explain")
        drawn = uniform_by_case(stream, inquiry.batch, inquiry.parts, inquiry.targets)
        return Attribution(torch.from_numpy(drawn).to(inquiry.batch.device), evaluations=0)
