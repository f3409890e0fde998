"""The interpretable recurrent network from a first half to a second, and the ordinary one."""

from __future__ import annotations

import torch
from torch import Tensor

from whence.experts.family import Family
from whence.experts.linear import InputLinear, LinkedLinear
from whence.experts.objective import DEFAULT, Recipe
from whence.experts.recurrent import ExpertGRU
from whence.experts.sequential import TWO_CLASSES, Places, SequentialModel
from whence.experts.targets import Target


class InterpretableGRU(SequentialModel):
    """One unit walks along the first half, and another goes on with its states."""

    def __init__(
        self,
        family: Family,
        asked: Places,
        width: int,
        generator: torch.Generator,
        *,
        target: Target = TWO_CLASSES,
        recipe: Recipe = DEFAULT,
        links: bool = True,
    ) -> None:
        super().__init__(family, target, recipe)
        seen = family.columns_of(asked)
        known_rows = InputLinear(family, 3 * width, generator)
        asked_rows = InputLinear(family, 3 * width, generator, columns=seen)
        self.encoder = ExpertGRU(family, known_rows, width, generator, links=links)
        self.decoder = ExpertGRU(family, asked_rows, width, generator, links=links)
        self.last = LinkedLinear(family, width, target.outputs, generator, links=links)

    def _answers(self, known: Tensor, asked: Tensor, stop: bool) -> Tensor:
        states = self.encoder(_by_steps(known), known.shape[1], stop)
        state = states.unflatten(2, (known.shape[1], -1))[:, :, -1]
        states = self.decoder(_by_steps(asked), asked.shape[1], stop, state)
        by_cases = states.unflatten(2, (asked.shape[1], -1)).transpose(2, 3).flatten(2)
        answers: Tensor = self.last(by_cases, stop)
        return answers


class OrdinaryGRU(InterpretableGRU):
    """One network that sees everything, as wide as all experts of the other together."""

    def __init__(
        self,
        family: Family,
        asked: Places,
        width: int,
        generator: torch.Generator,
        *,
        target: Target = TWO_CLASSES,
    ) -> None:
        super().__init__(family.as_one(), asked, len(family) * width, generator, target=target)


def _by_steps(rows: Tensor) -> Tensor:
    """`[B, n, columns]` to `[n·B, columns]`, all cases' first steps first."""
    return rows.transpose(0, 1).flatten(0, 1)
