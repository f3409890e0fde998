"""Weighted least squares for many cases that share their coalitions: one matrix for all of them."""

from __future__ import annotations

from itertools import product
from typing import Final

import torch
from torch import Tensor

from whence.errors import InputError
from whence.explainers.sampling import Design

FLAT: Final = 1e-12
"""Share of the largest eigenvalue below which the coalitions cannot tell players apart."""


class ShapleyRegression:
    """φ from values of coalitions: v(S) ≈ v(∅) + Σ_{j∈S} φ_j, with Σφ = v(N) − v(∅) exactly.

    With φ = Δ/n + ψ, Δ = v(N) − v(∅) and Σψ = 0, the regression is of v(S) − v(∅) − sΔ/n on the
    centred presence z − s/n, which is orthogonal to the direction that the sum rule decides.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self.present = design.coalitions.double()  # z: [c, n]
        players = self.present.shape[1]
        share = self.present.mean(dim=1, keepdim=True)  # s/n
        centred = self.present - share
        # The open direction, along which all φ are equal, gets a weight like that of the others.
        scale = (design.weights[:, None] * centred**2).sum() / players
        penalty = centred.new_full((players, players), float(scale) / players or 1.0)
        self.matrix = least_squares(centred, design.weights, penalty)
        self.share_of_sum = 1 / players - share[:, 0] @ self.matrix
        """`[n]`: the share of Δ that each player gets in addition to what the values say."""

    def __call__(self, values: Tensor, empty: Tensor, full: Tensor) -> tuple[Tensor, Tensor]:
        """Return φ and its standard errors, `[B, n]` each, from values `[B, c]`."""
        device = values.device
        gained = values - empty[:, None]
        whole = (full - empty)[:, None] * self.share_of_sum.to(device)
        phi = gained @ self.matrix.to(device) + whole
        if not self.design.draw_size:
            return phi, torch.zeros_like(phi)
        residuals = gained - phi @ self.present.to(device).T
        free = self.present.shape[1] - 1
        return phi, standard_errors(residuals, self.matrix, self.design.draw_size, free)


def least_squares(x: Tensor, weights: Tensor, penalty: Tensor) -> Tensor:
    """Return the matrix `[c, p]` that turns values into coefficients, β = y @ matrix.

    β minimizes Σ w (y − x·β)² + βᵀ penalty β, with x `[c, p]`, w `[c]` and penalty `[p, p]`.
    """
    weighted = weights[:, None] * x
    normal = x.T @ weighted + penalty
    eigenvalues = torch.linalg.eigvalsh(normal)
    if eigenvalues[0] <= FLAT * eigenvalues[-1]:
        raise InputError(
            f"The {len(x)} coalitions drawn cannot tell {x.shape[1]} items apart. Draw more "
            "coalitions, or set another seed."
        )
    solved: Tensor = torch.linalg.solve(normal, weighted.T)
    return solved.T.contiguous()


def standard_errors(residuals: Tensor, matrix: Tensor, draw_size: int, coefficients: int) -> Tensor:
    """Return `[B, p]`: how much β varies between designs, by the residuals (sandwich estimator).

    It is √(m/(m − p) Σ_draws (Σ_{k in the draw} P_k r_k)²). P is the matrix `[c, p]`, and r are the
    residuals `[B, c]`. There are m independent draws of `draw_size` coalitions and p coefficients.
    """
    of_draw = residuals.unflatten(1, (-1, draw_size))
    of_matrix = matrix.to(residuals.device).unflatten(0, (-1, draw_size))
    # The square of a sum over the coalitions of a draw is a sum over their pairs.
    variance = residuals.new_zeros(len(residuals), matrix.shape[1])
    for one, other in product(range(draw_size), repeat=2):
        variance += (of_draw[..., one] * of_draw[..., other]) @ (
            of_matrix[:, one] * of_matrix[:, other]
        )
    draws = of_draw.shape[1]
    correction: float = draws / (draws - coefficients)
    return (variance.clamp(min=0) * correction).sqrt()
