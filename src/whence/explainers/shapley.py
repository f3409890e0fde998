"""Shapley values: what each part brings, averaged over all ways to bring the parts together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from whence.config import require_choice
from whence.errors import InputError
from whence.explainers.base import Attribution, Inquiry
from whence.explainers.game import Game, play
from whence.explainers.regression import ShapleyRegression
from whence.explainers.sampling import Design, MarginalContributions, Sampler, draw_design, kept

MOST_ENUMERATED = 16


@dataclass(frozen=True)
class Shapley:
    """φ_j of the game v(S) = the score with only the parts S present; Σφ = f(N) − f(∅).

    Up to `exact_up_to` parts all coalitions are asked, if they are no more than may be asked; else
    as many as `coalitions` says are drawn, and the standard errors tell what that leaves open.
    Where a largest `error` is wanted, as a share of a case's largest |φ|, they double until it is
    reached, or `most` is spent.
    """

    sampler: Sampler = "paired"
    coalitions: int = 1024
    exact_up_to: int = 10
    error: float | None = None
    most: int = 65_536

    method: ClassVar[str] = "shapley"
    needs: ClassVar[tuple[str, ...]] = ("score_coalitions",)
    signed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_choice("sampler", self.sampler, Sampler)
        for name, count in (("coalitions", self.coalitions), ("most", self.most)):
            if count < 1:
                raise InputError(f"{name} is how many may be asked, at least 1, not {count}.")
        if self.error is not None and not self.error > 0:
            raise InputError(f"error is a share above 0, such as 0.1, not {self.error}.")
        if self.error is not None and self.most < self.coalitions:
            raise InputError(
                f"most={self.most} is less than the {self.coalitions} coalitions to begin with."
            )
        if self.exact_up_to > MOST_ENUMERATED:
            raise InputError(
                f"exact_up_to is at most {MOST_ENUMERATED}, which are {2**MOST_ENUMERATED:,} "
                f"coalitions, not {self.exact_up_to}."
            )

    @property
    def words(self) -> str:
        """With how it draws."""
        drawn = {"uniform": "; drawn by coins", "permutation": "; drawn by orders"}
        return (
            "What each {part} adds to the score, averaged over all ways to bring the {parts} "
            "together; "
            f"the sum is the whole difference they make{drawn.get(self.sampler, '')}."
        )

    @property
    def cost(self) -> str:
        """Short histories have fewer coalitions."""
        return f"at most {self._budget:,}"

    @property
    def _budget(self) -> int:
        """How many coalitions of a case may be asked."""
        return self.coalitions if self.error is None else self.most

    def _asks_all(self, players: int) -> bool:
        """Whether all coalitions are asked; a single player has none to draw."""
        return players == 1 or (players <= self.exact_up_to and 2**players - 2 <= self._budget)

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """Cases with parts in the same slots are asked about the same coalitions."""
        return play(inquiry, self._solve, values_each=self._budget)

    def _solve(self, game: Game) -> Attribution:
        """Where an error is wanted, cases that have it leave and the others go on."""
        players, sampler, count = game.players, self.sampler, self.coalitions
        if self._asks_all(players):
            sampler, count = "exact", 2**players
        phi, error = (game.full.new_zeros(len(game.full), players) for _ in range(2))
        evaluations = torch.zeros(len(phi), dtype=torch.int64)
        going = torch.arange(len(phi), device=phi.device)
        values = game.full.new_zeros(len(phi), 0)
        while len(going):
            solver = find_solver(players, count, sampler, game.inquiry.seed)
            coalitions = solver.design.coalitions
            now = game[going]
            # Values that were asked before are not asked again.
            asked = values.shape[1]
            more = now(coalitions[asked:] if asked else coalitions)
            values = torch.cat((values, more), dim=1)
            phi[going], error[going] = solver(values, now.empty, now.full)
            evaluations[going.cpu()] = len(coalitions)
            if self.error is None or count >= self.most:
                break
            unsure = error[going].amax(dim=1) > self.error * phi[going].abs().amax(dim=1)
            going, values = going[unsure], values[unsure]
            count = min(2 * count, self.most)
        return Attribution(phi, evaluations, error)


class Solver(Protocol):
    """From the values of a design's coalitions to φ."""

    design: Design

    def __call__(self, values: Tensor, empty: Tensor, full: Tensor) -> tuple[Tensor, Tensor]:
        """`[B, n]` each: φ and its standard errors, from values `[B, c]`."""
        ...


@kept
def find_solver(players: int, count: int, sampler: Sampler, seed: int) -> Solver:
    """With its design; thousands of histories of one size need it once."""
    design = draw_design(players, count, sampler, seed)
    return MarginalContributions(design) if sampler == "permutation" else ShapleyRegression(design)
