"""Chance: the control every explainer must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from whence.explainers.base import Attribution, Inquiry
from whence.randomness import Randomness, uniform_by_content


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
        batch, targets = inquiry.batch, inquiry.targets
        case = torch.column_stack((targets, batch)).cpu().numpy()
        used = torch.column_stack((torch.ones_like(targets, dtype=torch.bool), inquiry.parts))
        stream = Randomness(inquiry.seed).sequence("explain")
        drawn = uniform_by_content(stream, case, used.cpu().numpy())[:, 1:]
        return Attribution(torch.from_numpy(drawn).to(batch.device), evaluations=0)
