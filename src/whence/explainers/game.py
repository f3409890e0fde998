"""The game behind Shapley values, LIME and leave-one-out: v(S), the score of some parts alone.

The parts of a case are the players. Cases whose parts lie in the same slots play together: they
share their coalitions, which a model can score faster than those of each case alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from whence.contract import score_coalitions
from whence.explainers.base import Attribution, Request
from whence.memory import row_slices

BYTES_OF_A_VALUE = 48
"""About what one v(S) occupies while its case is solved: itself, its residual, their products."""


@dataclass(frozen=True, eq=False)
class Game:
    """v(S) of `B` cases whose `p` players stand in the same slots."""

    request: Request
    slots: Tensor
    """`[p]`: where the players stand."""

    @property
    def players(self) -> int:
        """The number of players, p."""
        return len(self.slots)

    @property
    def full(self) -> Tensor:
        """Return v(N) `[B]`, in double precision like every result computed from values."""
        return self.request.full_score.double()

    @property
    def empty(self) -> Tensor:
        """Return v(∅) `[B]`."""
        return self.request.empty_score.double()

    def __getitem__(self, cases: Tensor) -> Game:
        """Return the game of some of the cases."""
        return Game(self.request[cases], self.slots)

    def __call__(self, coalitions: Tensor) -> Tensor:
        """Return `[B, c]`: the value of each coalition of players.

        They are `[c, p]`, shared by all cases, or `[B, c, p]`.
        """
        request = self.request
        if not coalitions.shape[-2]:
            return self.full.new_zeros(len(request), 0)
        values = score_coalitions(
            request.model,
            request.batch,
            request.targets,
            self.present(coalitions),
            memory=request.memory,
        )
        return values.double()

    def present(self, coalitions: Tensor) -> Tensor:
        """Return `[…, c, n]`: the coalitions `[…, c, p]` in the slots of the batch."""
        if self.players == self.request.parts.shape[1]:
            return coalitions.to(self.request.parts.device)
        slots = self.request.parts.shape[1]
        present = self.request.parts.new_zeros(*coalitions.shape[:-1], slots)
        present[..., self.slots] = coalitions.to(present.device)
        return present


def play(
    request: Request, rule: Callable[[Game], Attribution], values_each: int = 1
) -> Attribution:
    """Solve every game by one rule and put the players' scores back into their slots.

    The rule holds `values_each` values of each case in memory.
    """
    scores = request.full_score.new_zeros(request.parts.shape, dtype=torch.float64)
    errors: Tensor | None = None
    evaluations = torch.zeros(len(request), dtype=torch.int64)
    for cases, game in games(request, values_each):
        found = rule(game)
        scores[cases[:, None], game.slots] = found.scores
        evaluations[cases.cpu()] = torch.as_tensor(found.evaluations)
        if found.error is not None:
            errors = torch.zeros_like(scores) if errors is None else errors
            errors[cases[:, None], game.slots] = found.error
    return Attribution(scores, evaluations, errors)


def games(request: Request, values_each: int) -> Iterator[tuple[Tensor, Game]]:
    """Yield the cases that play together, and their game; cases without a player are left out.

    As many cases play at a time as fit into memory, with `values_each` values each.
    """
    at_once = max(1, request.memory // (BYTES_OF_A_VALUE * values_each))
    patterns, pattern, counts = request.parts.unique(dim=0, return_inverse=True, return_counts=True)
    together = pattern.argsort(stable=True).split(counts.tolist())
    for slots, cases in zip(patterns, together, strict=True):
        if slots.any():
            for some in row_slices(len(cases), at_once):
                yield cases[some], Game(request[cases[some]], slots.nonzero()[:, 0])
