"""The interpretable GRU from a known first half to a second, and the ordinary counterpart."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from whence.experts.family import Family
from whence.experts.linear import InputLinear, LinkedLinear
from whence.experts.selection import DEFAULT, Recipe
from whence.experts.sequential import TWO_CLASSES, GroupColumns, SequentialModel
from whence.experts.targets import Target


class ExpertGRU(nn.Module):
    """A GRU in which each expert has its own state: rows to states `[H, dim, n·B]`.

    `reader` has three times `dim` outputs.
    """

    def __init__(
        self,
        family: Family,
        reader: InputLinear | LinkedLinear,
        dim: int,
        generator: torch.Generator,
        *,
        linked: bool = True,
    ) -> None:
        super().__init__()
        self.n_experts, self.dim, self.reader = len(family), dim, reader
        self.recurrent = LinkedLinear(family, dim, 3 * dim, generator, linked=linked)

    def forward(
        self, rows: Tensor, steps: int, detach: bool = True, state: Tensor | None = None
    ) -> Tensor:
        """Return the states after each step, ordered by step and then by case.

        Start from `state` `[H, dim, B]`, or from zeros.
        """
        read = self.reader(rows, detach).unflatten(-1, (steps, -1)).movedim(2, 0)
        if state is None:
            state = read.new_zeros(self.n_experts, self.dim, read.shape[-1])
        states: list[Tensor] = []
        for step in read.unbind():
            state = self._next(step, state, detach)
            states.append(state)
        return torch.stack(states, dim=2).flatten(2)

    def _next(self, read: Tensor, state: Tensor, detach: bool) -> Tensor:
        """Return h_t."""
        cuts = (2 * self.dim, self.dim)
        gates, fresh = read.split(cuts, dim=1)
        more_gates, more = self.recurrent(state, detach).split(cuts, dim=1)
        reset, update = (gates + more_gates).sigmoid().chunk(2, dim=1)
        return torch.lerp(torch.addcmul(fresh, reset, more).tanh(), state, update)


class InterpretableGRU(SequentialModel):
    """A GRU encodes the first half, and another continues from its final state."""

    def __init__(
        self,
        family: Family,
        upcoming: GroupColumns,
        dim: int,
        generator: torch.Generator,
        *,
        target: Target = TWO_CLASSES,
        recipe: Recipe = DEFAULT,
        linked: bool = True,
    ) -> None:
        super().__init__(family, target, recipe)
        seen = family.columns_of(upcoming)
        known_layer = InputLinear(family, 3 * dim, generator)
        upcoming_layer = InputLinear(family, 3 * dim, generator, columns=seen)
        self.encoder = ExpertGRU(family, known_layer, dim, generator, linked=linked)
        self.decoder = ExpertGRU(family, upcoming_layer, dim, generator, linked=linked)
        self.last = LinkedLinear(family, dim, target.n_outputs, generator, linked=linked)

    def _expert_outputs(self, known: Tensor, upcoming: Tensor, detach: bool) -> Tensor:
        states = self.encoder(_by_steps(known), known.shape[1], detach)
        state = states.unflatten(2, (known.shape[1], -1))[:, :, -1]
        states = self.decoder(_by_steps(upcoming), upcoming.shape[1], detach, state)
        by_cases = states.unflatten(2, (upcoming.shape[1], -1)).transpose(2, 3).flatten(2)
        outputs: Tensor = self.last(by_cases, detach)
        return outputs


class OrdinaryGRU(InterpretableGRU):
    """One network that sees everything, as wide as all experts of the other together."""

    def __init__(
        self,
        family: Family,
        upcoming: GroupColumns,
        dim: int,
        generator: torch.Generator,
        *,
        target: Target = TWO_CLASSES,
    ) -> None:
        super().__init__(family.as_one(), upcoming, len(family) * dim, generator, target=target)


def _by_steps(rows: Tensor) -> Tensor:
    """Reorder `[B, n, columns]` to `[n·B, columns]`, sorted by step."""
    return rows.transpose(0, 1).flatten(0, 1)
