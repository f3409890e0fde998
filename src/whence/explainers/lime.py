"""LIME (Ribeiro, Singh & Guestrin 2016): a linear fit of the scores near the whole history.

It follows the authors' version for texts, with parts for words, and without feature selection.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whence.errors import InputError
from whence.explainers.base import EXPLAINERS, Attribution, Explainer, Request
from whence.explainers.game import Game, play
from whence.explainers.regression import least_squares, standard_errors
from whence.explainers.sampling import cached_by_size, subsets
from whence.randomness import Randomness


@dataclass(frozen=True)
class Lime(Explainer):
    """β of v(S) ≈ β₀ + Σ_{j∈S} β_j, by ridge regression weighted by nearness to the whole.

    The number of missing parts is uniform from 1 to n, and so is the choice of them. A coalition of
    s parts weighs √exp(−d²/kernel_width²), with d = 1 − √(s/n) its cosine distance from the whole.
    """

    coalitions: int = 1024
    kernel_width: float = 0.25
    """LIME's own 25 counts distances in hundredths."""
    ridge: float = 1.0

    method = "lime"
    needs = ("score_coalitions",)
    signed = True
    samples = True
    summary = "The slope of a linear fit to the scores of {wholes} with some {parts} missing."

    def __post_init__(self) -> None:
        if not self.kernel_width > 0 or not self.ridge >= 0:
            raise InputError("LIME needs a kernel_width above 0 and a ridge of at least 0.")

    @property
    def cost(self) -> str:
        """Return the number of coalitions."""
        return f"{self.coalitions:,}"

    def __call__(self, request: Request) -> Attribution:
        """Score the same coalitions for cases with parts in the same slots."""
        return play(request, self._fit, values_each=self.coalitions)

    def _fit(self, game: Game) -> Attribution:
        fit = find_fit(
            game.players, self.coalitions, game.request.seed, self.kernel_width, self.ridge
        )
        beta, error = fit(torch.cat((game.full[:, None], game(fit.present[1:] > 0)), dim=1))
        return Attribution(beta, self.coalitions, error)


class LinearFit:
    """The regression for one design: the whole history, then the coalitions drawn."""

    def __init__(self, present: Tensor, kernel_width: float, ridge: float) -> None:
        self.present = present
        distance = 1 - present.mean(dim=1).sqrt()
        weights = torch.exp(-(distance**2) / kernel_width**2).sqrt()
        # Centring by the weighted means gives the intercept, which the ridge does not penalize.
        self.share = weights / weights.sum()
        self.centred = present - self.share @ present
        penalty = ridge * torch.eye(present.shape[1], dtype=present.dtype)
        self.matrix = least_squares(self.centred, weights, penalty)

    def __call__(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return β and its standard errors, `[B, n]` each, from values `[B, 1 + c]`."""
        device = values.device
        beta = values @ self.matrix.to(device)
        level = values @ self.share.to(device)
        residuals = values - level[:, None] - beta @ self.centred.to(device).T
        coefficients = 1 + beta.shape[1]
        # The whole history was not drawn.
        return beta, standard_errors(residuals[:, 1:], self.matrix[1:], 1, coefficients)


@cached_by_size
def find_fit(players: int, count: int, seed: int, kernel_width: float, ridge: float) -> LinearFit:
    """Return the regression, built once for all histories of one size."""
    if count < players + 2:
        raise InputError(
            f"coalitions is {count}, but LIME on {players} items needs at least {players + 2}. "
            f"Set coalitions={players + 2} or more."
        )
    drawn = Randomness(seed).numpy("explain").random((count, 1 + players))
    missing = subsets(drawn[:, 1:], 1 + (drawn[:, 0] * players).astype(np.int64))
    whole = np.ones((1, players))
    return LinearFit(torch.from_numpy(np.concatenate((whole, ~missing))), kernel_width, ridge)


EXPLAINERS.add("lime", Lime(), place=60)
