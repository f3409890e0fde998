"""LIME (Ribeiro, Singh & Guestrin 2016): a straight line through the scores near the whole history.

As its authors do it for texts, with the parts for words; no part is left out of the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from whence.errors import InputError
from whence.explainers.base import Attribution, Inquiry
from whence.explainers.game import Game, play
from whence.explainers.regression import least_squares, standard_errors
from whence.explainers.sampling import kept, subsets
from whence.randomness import Randomness


@dataclass(frozen=True)
class Lime:
    """β of v(S) ≈ β₀ + Σ_{j∈S} β_j: least squares, weighted by nearness to the whole, with a ridge.

    How many parts are missing is uniform from 1 to n, and which ones too. A coalition of s parts
    weighs √exp(−d²/width²), with d = 1 − √(s/n) its cosine distance from the whole.
    """

    coalitions: int = 1024
    width: float = 0.25
    """Of the kernel. LIME's own 25 counts distances in hundredths."""
    ridge: float = 1.0

    method: ClassVar[str] = "lime"
    needs: ClassVar[tuple[str, ...]] = ("score_coalitions",)
    signed: ClassVar[bool] = True
    words: ClassVar[str] = (
        "The slope of a straight line through the scores of {wholes} with a few {parts} missing."
    )

    def __post_init__(self) -> None:
        if not self.width > 0 or not self.ridge >= 0:
            raise InputError("LIME needs a width above 0 and a ridge of at least 0.")

    @property
    def cost(self) -> str:
        """As many as are drawn."""
        return f"{self.coalitions:,}"

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """Cases with parts in the same slots are asked about the same coalitions."""
        return play(inquiry, self._fit, values_each=self.coalitions)

    def _fit(self, game: Game) -> Attribution:
        line = find_line(game.players, self.coalitions, game.inquiry.seed, self.width, self.ridge)
        beta, error = line(torch.cat((game.full[:, None], game(line.present[1:] > 0)), dim=1))
        return Attribution(beta, self.coalitions, error)


class Line:
    """The regression for one design: the whole history, then the coalitions drawn."""

    def __init__(self, present: Tensor, width: float, ridge: float) -> None:
        self.present = present
        distance = 1 - present.mean(dim=1).sqrt()
        weights = torch.exp(-(distance**2) / width**2).sqrt()
        # The intercept goes with the weighted means, and the ridge does not hold it.
        self.share = weights / weights.sum()
        self.centred = present - self.share @ present
        penalty = ridge * torch.eye(present.shape[1], dtype=present.dtype)
        self.matrix = least_squares(self.centred, weights, penalty)

    def __call__(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """`[B, n]` each: β and its standard errors, from values `[B, 1 + c]`."""
        device = values.device
        beta = values @ self.matrix.to(device)
        level = values @ self.share.to(device)
        residuals = values - level[:, None] - beta @ self.centred.to(device).T
        coefficients = 1 + beta.shape[1]
        # The whole history was not drawn.
        return beta, standard_errors(residuals[:, 1:], self.matrix[1:], 1, coefficients)


@kept
def find_line(players: int, count: int, seed: int, width: float, ridge: float) -> Line:
    """The same for all histories of one size."""
    if count < players + 2:
        raise InputError(
            f"LIME on {players} items needs at least {players + 2} coalitions, not {count}; "
            f"say coalitions={players + 2} or more."
        )
    drawn = Randomness(seed).numpy("explain").random((count, 1 + players))
    missing = subsets(drawn[:, 1:], 1 + (drawn[:, 0] * players).astype(np.int64))
    whole = np.ones((1, players))
    return Line(torch.from_numpy(np.concatenate((whole, ~missing))), width, ridge)
