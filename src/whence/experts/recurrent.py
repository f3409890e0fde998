"""A gated recurrent unit over experts (Cho et al. 2014), linked at every step.

r, z = σ(W x_t + U h_{t−1}), n = tanh(W x_t + r ∘ U h_{t−1}), h_t = n + z ∘ (h_{t−1} − n), where W
and U, with their biases, are linear layers over experts: the state of an expert follows from its
own and from those of experts it contains.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from whence.experts.family import Family
from whence.experts.linear import InputLinear, LinkedLinear


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
