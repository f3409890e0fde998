"""Shapley values by Algorithm 1 of Baumhauer (2021), as it is printed.

Coalitions are drawn by fair coins, and a regression weighted by the Shapley kernel gives φ as its
slopes. Its intercept is free, so φ need not sum to f(N) − f(∅).

Two points need a reading. The printed weights do not give Shapley values: nearly all weight would
be on the largest coalitions drawn. The kernel (n − 1) / (C(n, s)·s·(n − s)) of Lundberg and Lee
(2017), whom the paper cites, takes their place. It is infinite for the empty and the full
coalition. The paper says that the regression on all 2ⁿ coalitions gives the exact values. That
holds only if the fit passes through these two. So it does if they are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from whence.errors import InputError
from whence.explainers.base import EXPLAINERS, Attribution, Explainer, Request
from whence.explainers.game import Game, play
from whence.explainers.random import key_by_case
from whence.explainers.regression import kernel_regression
from whence.randomness import CounterRandom, Randomness

WORD = 64
"""Coins in one random number."""


@dataclass(frozen=True)
class PrintedShapley(Explainer):
    """The slopes of a weighted regression on coalitions drawn by coins, anew for each case."""

    coalitions: int = 1024
    """How many coalitions of a case are drawn; one may be drawn several times."""

    method = "shapley-printed"
    needs = ("score_coalitions",)
    signed = True
    samples = True
    summary = (
        "The slope of a weighted linear fit to the scores of {wholes} of which each {part} is kept "
        "or left out by a coin, as Baumhauer (2021) estimates Shapley values."
    )

    @property
    def cost(self) -> str:
        """Return the number of coalitions."""
        return f"{self.coalitions:,}"

    def __call__(self, request: Request) -> Attribution:
        """Draw, score and fit several cases at once."""
        # A case holds its own coalitions and the terms of its regression, not only its values.
        numbers = 1 + request.parts.shape[1]
        return play(request, self._fit, values_each=self.coalitions * numbers)

    def _fit(self, game: Game) -> Attribution:
        if self.coalitions < game.players + 2:
            raise InputError(
                f"coalitions is {self.coalitions}, but shapley-printed on {game.players} items "
                f"needs at least {game.players + 2}. Set coalitions={game.players + 2} or more."
            )
        coalitions = toss(game, self.coalitions)
        phi, error = kernel_regression(coalitions, game(coalitions), game.empty, game.full)
        return Attribution(phi, self.coalitions, error)


def toss(game: Game, count: int) -> Tensor:
    """Return bool `[B, c, p]`: a coin for each player of each coalition of each case.

    The coins depend on the seed, the case and its target, not on other cases or on padding. More
    coalitions start with the fewer ones.
    """
    request = game.request
    stream = Randomness(request.seed).sequence("explain")
    keys = key_by_case(stream, request.batch, request.parts, request.targets)
    device = request.parts.device
    words = -(-game.players // WORD)
    numbers = CounterRandom(keys.view("int64").tolist(), device).bits(
        torch.zeros((), dtype=torch.int64, device=device), range(1), count * words
    )
    player = torch.arange(game.players, device=device)
    own = numbers[0].view(len(request), count, words)[..., player // WORD]
    return (own >> (player % WORD)) & 1 == 1


EXPLAINERS.add("shapley-printed", PrintedShapley(), place=51)
