"""Weighted least squares on the values of coalitions.

Cases that share their coalitions share one matrix. Cases with coalitions of their own are solved in
one batch.
"""

from __future__ import annotations

from itertools import product
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.errors import InputError
from whence.explainers.sampling import Design, shapley_kernel

FLAT: Final = 1e-12
"""Share of the largest eigenvalue below which the coalitions cannot tell players apart."""
SEEN_FULLY: Final = 1e-9
"""The share of a value that the fit must leave open; less is rounding."""


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
        raise _undetermined(*x.shape)
    solved: Tensor = torch.linalg.solve(normal, weighted.T)
    return solved.T.contiguous()


def _undetermined(coalitions: int, players: int) -> InputError:
    return InputError(
        f"The {coalitions} coalitions drawn cannot tell {players} items apart. Draw more "
        "coalitions, or set another seed."
    )


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


def kernel_regression(
    coalitions: Tensor, values: Tensor, empty: Tensor, full: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the slopes φ of v(S) ≈ φ₀ + Σ_{j∈S} φ_j and their standard errors, `[B, n]` each.

    Every case has its own coalitions `[B, c, n]`, weighted by the Shapley kernel. The empty and the
    full one have infinite weight: the fit passes through v(∅) `[B]` or v(N) `[B]` exactly if that
    coalition was drawn. Neither constrains the fit if it was not.

    The coefficients are the fit's values at ∅ and N, and ψ_j with Σψ = 0. Then φ_j is ψ_j plus 1/n
    of the difference between N and ∅.
    """
    players = coalitions.shape[-1]
    weights = shapley_kernel(coalitions)
    ends = torch.stack((~coalitions.any(dim=-1), coalitions.all(dim=-1)), dim=-1).any(dim=1)
    fixed = F.pad(ends, (0, players))  # [B, 2 + n]
    known = F.pad(torch.stack((empty, full), dim=-1), (0, players)) * fixed
    present = coalitions.double()
    share = present.mean(dim=-1, keepdim=True)  # s/n
    terms = torch.cat((1 - share, share, present - share), dim=-1)  # [B, c, 2 + n]
    unexplained = values - (terms @ known[..., None]).squeeze(-1)
    terms *= ~fixed[:, None]
    weighted = weights[..., None] * terms
    inverse = _inverse(terms.mT @ weighted + torch.diag_embed(fixed.double()), len(weights[0]))
    found = (inverse @ (weighted.mT @ unexplained[..., None])).squeeze(-1)
    residuals = unexplained - (terms @ found[..., None]).squeeze(-1)
    # HC3: a residual as it would be if the fit had not seen its coalition.
    seen = ((weighted @ inverse) * terms).sum(dim=-1)
    residuals /= (1 - seen).clamp(min=SEEN_FULLY)
    weighted *= residuals[..., None]
    slopes = torch.eye(players, 2 + players, dtype=terms.dtype, device=terms.device).roll(2, 1)
    slopes[:, 0], slopes[:, 1] = -1 / players, 1 / players
    turned = slopes @ inverse
    error = ((turned @ (weighted.mT @ weighted)) * turned).sum(dim=-1).clamp(min=0).sqrt()
    return (known + found) @ slopes.T, error


def _inverse(normal: Tensor, count: int) -> Tensor:
    """Invert the normal matrices `[B, 2 + n, 2 + n]`, whose direction Σψ is open."""
    players = normal.shape[-1] - 2
    # The open direction gets a weight like that of the others.
    scale = normal.diagonal(dim1=1, dim2=2)[:, 2:].mean(dim=1)[:, None, None]
    normal[:, 2:, 2:] += scale.where(scale > 0, 1.0) / players
    factor, failed = torch.linalg.cholesky_ex(normal)
    pivots = factor.diagonal(dim1=1, dim2=2)
    if failed.any() or (pivots.amin(dim=1) <= FLAT**0.5 * pivots.amax(dim=1)).any():
        raise _undetermined(count, players)
    return torch.cholesky_inverse(factor)
