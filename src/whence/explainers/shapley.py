"""Shapley values: what each part adds, averaged over all orders in which parts can be added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.config import require_choice
from whence.errors import InputError
from whence.explainers.base import EXPLAINERS, Attribution, Explainer, Request
from whence.explainers.game import Game, play
from whence.explainers.regression import ShapleyRegression
from whence.explainers.sampling import Design, Sampler, cached_by_size, draw_design

MAX_ENUMERATED = 16


@dataclass(frozen=True)
class Shapley(Explainer):
    """φ_j of the game v(S) = the score with only the parts S present; Σφ = f(N) − f(∅)."""

    sampler: Sampler = "paired"
    """How coalitions are drawn."""
    coalitions: int = 1024
    """How many coalitions of a case are scored."""
    exact_up_to: int = 10
    """Number of parts up to which all coalitions are scored, if the budget allows."""
    error: float | None = None
    """Largest standard error wanted, as a share of a case's largest |φ|. Coalitions double until
    it is reached or `most` are scored."""
    most: int = 65_536
    """The budget when an `error` is set."""

    method = "shapley"
    needs = ("score_coalitions",)
    signed = True
    samples = True
    adds_up = True

    def __post_init__(self) -> None:
        require_choice("sampler", self.sampler, Sampler)
        for name, count in (("coalitions", self.coalitions), ("most", self.most)):
            if count < 1:
                raise InputError(f"{name} is {count}; set it to 1 or more.")
        if self.error is not None and not self.error > 0:
            raise InputError(f"error is {self.error}; set a share above 0, such as 0.1.")
        if self.error is not None and self.most < self.coalitions:
            raise InputError(
                f"most={self.most} is less than coalitions={self.coalitions}, the number to start "
                "with. Raise the one or lower the other."
            )
        if self.exact_up_to > MAX_ENUMERATED:
            raise InputError(
                f"exact_up_to is {self.exact_up_to}; set at most {MAX_ENUMERATED}, which are "
                f"{2**MAX_ENUMERATED:,} coalitions."
            )

    @property
    def summary(self) -> str:
        """Say how coalitions are drawn."""
        drawn = " (sampled by random orders)" if self.sampler == "permutation" else ""
        return (
            "What each {part} adds to the score, averaged over all orders of adding the {parts}"
            f"{drawn}; the scores sum to the difference all of them make."
        )

    @property
    def cost(self) -> str:
        """Return the budget; short histories have fewer coalitions."""
        return f"at most {self._budget:,}"

    @property
    def _budget(self) -> int:
        """The number of coalitions of a case that may be scored."""
        return self.coalitions if self.error is None else self.most

    def _enumerates(self, players: int) -> bool:
        """Whether all coalitions are scored; a single player has none to draw."""
        return players == 1 or (players <= self.exact_up_to and 2**players - 2 <= self._budget)

    def __call__(self, request: Request) -> Attribution:
        """Score the same coalitions for cases with parts in the same slots."""
        return play(request, self._solve, values_each=self._budget)

    def _solve(self, game: Game) -> Attribution:
        """Double the coalitions of those cases whose error is still too large, if one is set."""
        players, sampler, count = game.players, self.sampler, self.coalitions
        if self._enumerates(players):
            sampler, count = "exact", 2**players
        phi, error = (game.full.new_zeros(len(game.full), players) for _ in range(2))
        evaluations = torch.zeros(len(phi), dtype=torch.int64)
        active = torch.arange(len(phi), device=phi.device)
        values = game.full.new_zeros(len(phi), 0)
        while len(active):
            solver = find_solver(players, count, sampler, game.request.seed)
            coalitions = solver.design.coalitions
            now = game[active]
            # Values of the shorter design are known.
            known = values.shape[1]
            more = now(coalitions[known:] if known else coalitions)
            values = torch.cat((values, more), dim=1)
            phi[active], error[active] = solver(values, now.empty, now.full)
            evaluations[active.cpu()] = len(coalitions)
            if self.error is None or count >= self.most:
                break
            unsure = error[active].amax(dim=1) > self.error * phi[active].abs().amax(dim=1)
            active, values = active[unsure], values[unsure]
            count = min(2 * count, self.most)
        return Attribution(phi, evaluations, error)


class Solver(Protocol):
    """Turns the values of a design's coalitions into φ."""

    design: Design

    def __call__(self, values: Tensor, empty: Tensor, full: Tensor) -> tuple[Tensor, Tensor]:
        """Return φ and its standard errors, `[B, n]` each, from values `[B, c]`."""
        ...


class MarginalContributions:
    """The mean over orders of v(players up to j) − v(players before j).

    An order and its reverse are one draw: a player early in the one is late in the other.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        players = design.coalitions.shape[1]
        prefixes = design.coalitions.view(-1, 2, players - 1, players).int()  # [m, 2, n − 1, n]
        # The first player is in all prefixes of its order, the last in none.
        self.place = players - 1 - prefixes.sum(dim=2)  # [m, 2, n]

    def __call__(self, values: Tensor, empty: Tensor, full: Tensor) -> tuple[Tensor, Tensor]:
        """Return φ and its standard errors, `[B, n]` each, from values `[B, c]`."""
        orders, _, players = self.place.shape
        inner = values.view(-1, orders, 2, players - 1)
        prefixes = F.pad(inner, (1, 1))
        prefixes[..., 0] = empty[:, None, None]
        prefixes[..., -1] = full[:, None, None]
        place = self.place.to(values.device).expand(len(values), -1, -1, -1)
        added = prefixes.diff(dim=-1).gather(-1, place)  # [B, m, 2, n], by player
        of_draw = added.mean(dim=2)
        phi = of_draw.mean(dim=1)
        return phi, of_draw.std(dim=1) / orders**0.5


@cached_by_size
def find_solver(players: int, count: int, sampler: Sampler, seed: int) -> Solver:
    """Return the solver with its design, built once for all histories of one size."""
    design = draw_design(players, count, sampler, seed)
    return MarginalContributions(design) if sampler == "permutation" else ShapleyRegression(design)


EXPLAINERS.add(
    "shapley",
    Shapley(),
    aliases=("kernel-shap", "kernelshap", "shap"),
    tags=("usual", "audit"),
    place=50,
)
EXPLAINERS.add(
    "shapley-permutation",
    Shapley(sampler="permutation"),
    aliases=("shapley-value-sampling",),
    place=52,
)
