"""The game that Shapley values, LIME and leave-one-out play: v(S), the score of some parts alone.

The parts of a case are the players. Cases whose parts lie in the same slots play together: they
share their coalitions, which a model can score faster than those of each case by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from whence.contract import score_coalitions
from whence.explainers.base import Attribution, Inquiry
from whence.memory import row_slices

BYTES_OF_A_VALUE = 48
"""About what a v(S) takes up while its case is worked on: itself, its residual, their products."""


@dataclass(frozen=True, eq=False)
class Game:
    """v(S) of `B` cases whose `p` players stand in the same slots."""

    inquiry: Inquiry
    slots: Tensor
    """`[p]`: where the players stand."""

    @property
    def players(self) -> int:
        """p."""
        return len(self.slots)

    @property
    def full(self) -> Tensor:
        """`[B]`: v(N), in double precision as all that is worked out from values."""
        return self.inquiry.full.double()

    @property
    def empty(self) -> Tensor:
        """`[B]`: v(∅)."""
        return self.inquiry.empty.double()

    def __getitem__(self, cases: Tensor) -> Game:
        """The same game of some of the cases."""
        return Game(self.inquiry[cases], self.slots)

    def __call__(self, coalitions: Tensor) -> Tensor:
        """`[B, c]`: the value of each coalition `[c, p]` of players."""
        asked = self.inquiry
        if not len(coalitions):
            return self.full.new_zeros(len(asked), 0)
        values = score_coalitions(
            asked.model, asked.batch, asked.targets, self.present(coalitions), memory=asked.memory
        )
        return values.double()

    def present(self, coalitions: Tensor) -> Tensor:
        """`[c, n]`: the coalitions `[c, p]` in the slots of the batch."""
        if self.players == self.inquiry.parts.shape[1]:
            return coalitions.to(self.inquiry.parts.device)
        present = self.inquiry.parts.new_zeros(len(coalitions), self.inquiry.parts.shape[1])
        present[:, self.slots] = coalitions.to(present.device)
        return present


def play(
    inquiry: Inquiry, rule: Callable[[Game], Attribution], values_each: int = 1
) -> Attribution:
    """Every game played by the same rule, its players' worth put back into their slots.

    The rule holds so many values of each case.
    """
    scores = inquiry.full.new_zeros(inquiry.parts.shape, dtype=torch.float64)
    errors: Tensor | None = None
    evaluations = torch.zeros(len(inquiry), dtype=torch.int64)
    for cases, game in games(inquiry, values_each):
        found = rule(game)
        scores[cases[:, None], game.slots] = found.scores
        evaluations[cases.cpu()] = torch.as_tensor(found.evaluations)
        if found.error is not None:
            errors = torch.zeros_like(scores) if errors is None else errors
            errors[cases[:, None], game.slots] = found.error
    return Attribution(scores, evaluations, errors)


def games(inquiry: Inquiry, values_each: int) -> Iterator[tuple[Tensor, Game]]:
    """Which cases play together, and their game; those without a player do not play.

    As many cases play at a time as memory has room for, if so many values are held of each.
    """
    at_once = max(1, inquiry.memory // (BYTES_OF_A_VALUE * values_each))
    patterns, pattern, counts = inquiry.parts.unique(dim=0, return_inverse=True, return_counts=True)
    together = pattern.argsort(stable=True).split(counts.tolist())
    for slots, cases in zip(patterns, together, strict=True):
        if slots.any():
            for some in row_slices(len(cases), at_once):
                yield cases[some], Game(inquiry[cases[some]], slots.nonzero()[:, 0])
