"""The interpretable recurrent network from a first half to a second, and the ordinary one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from whence.experts.family import Family
from whence.experts.linear import InputLinear, LinkedLinear
from whence.experts.objective import DEFAULT, Recipe
from whence.experts.sequential import TWO_CLASSES, Places, SequentialModel
from whence.experts.targets import Target


class ExpertGRU(nn.Module):
    """Rows that are steps, step after step, to the states `[H, width, n·B]` after each.

    `reader` has three times `width` outputs.
    """

    def __init__(
        self,
        family: Family,
        reader: InputLinear | LinkedLinear,
        width: int,
        generator: torch.Generator,
        *,
        links: bool = True,
    ) -> None:
        super().__init__()
        self.experts, self.width, self.reader = len(family), width, reader
        self.recurrent = LinkedLinear(family, width, 3 * width, generator, links=links)

    def forward(
        self, rows: Tensor, steps: int, stop: bool = True, state: Tensor | None = None
    ) -> Tensor:
        """The states after each step, of the first step's cases first.

        They begin with a `state` `[H, width, B]` that others left, or with zeros.
        """
        read = self.reader(rows, stop).unflatten(-1, (steps, -1)).movedim(2, 0)
        if state is None:
            state = read.new_zeros(self.experts, self.width, read.shape[-1])
        states: list[Tensor] = []
        for step in read.unbind():
            state = self._next(step, state, stop)
            states.append(state)
        return torch.stack(states, dim=2).flatten(2)

    def _next(self, read: Tensor, state: Tensor, stop: bool) -> Tensor:
        """h_t."""
        cuts = (2 * self.width, self.width)
        gates, fresh = read.split(cuts, dim=1)
        more_gates, more = self.recurrent(state, stop).split(cuts, dim=1)
        reset, update = (gates + more_gates).sigmoid().chunk(2, dim=1)
        return torch.lerp(torch.addcmul(fresh, reset, more).tanh(), state, update)


# ...


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
