"""Which coalitions are asked for Shapley values, and what each answer weighs.

A design depends on the sampler, the number of players, the seed and how many coalitions there may
be, never on a case: histories of one size share it (common random numbers), so a history's numbers
are the same alone and in any batch, and chance does not come between two histories. The first
coalitions of a longer design are those of a shorter, so that sampling can go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeVar, TypeVarTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from whence.arrays import Bools
from whence.coalitions import size_shares
from whence.errors import InputError
from whence.randomness import Randomness


class MarginalContributions:
    """The mean over orders of v(those up to j) − v(those before j).

    An order and its reverse make one draw: where one meets a player early, the other meets it late.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        players = design.coalitions.shape[1]
        begun = design.coalitions.view(-1, 2, players - 1, players).int()  # [m, 2, n − 1, n]
        # How many of an order's beginnings have a player tells its place: all have the first.
        self.place = players - 1 - begun.sum(dim=2)  # [m, 2, n]

    def __call__(self, values: Tensor, empty: Tensor, full: Tensor) -> tuple[Tensor, Tensor]:
        """`[B, n]` each: φ and its standard errors, from values `[B, c]`."""
        orders, _, players = self.place.shape
        inner = values.view(-1, orders, 2, players - 1)
        begun = F.pad(inner, (1, 1))
        begun[..., 0] = empty[:, None, None]
        begun[..., -1] = full[:, None, None]
        place = self.place.to(values.device).expand(len(values), -1, -1, -1)
        brought = begun.diff(dim=-1).gather(-1, place)  # [B, m, 2, n], by player
        of_draw = brought.mean(dim=2)
        phi = of_draw.mean(dim=1)
        return phi, of_draw.std(dim=1) / orders**0.5


# ...


Sampler = Literal["paired", "uniform", "permutation", "exact"]
T = TypeVar("T")
Others = TypeVarTuple("Others")

SMALL: Final = 2**18
"""Numbers in a design of which many are kept; of larger ones only the last few."""


@dataclass(frozen=True, eq=False)
class Design:
    """`c` coalitions of `n` players, and how they were come by."""

    coalitions: Tensor
    """Bool `[c, n]`."""
    weights: Tensor
    """`[c]`: in the regression."""
    together: int
    """So many coalitions in a row come from one independent draw; 0 where all are there."""


def draw_design(players: int, count: int, sampler: Sampler, seed: int) -> Design:
    """At most `count` coalitions, so many that each draw is whole."""
    least = LEAST[sampler](players)
    if count < least:
        raise InputError(
            f"Shapley values of {players} items need at least {least:,} coalitions, not {count:,}; "
            f"say coalitions={least} or more."
        )
    return DRAW[sampler](players, count, Randomness(seed).numpy("explain"))


def _uniform(players: int, count: int, rng: np.random.Generator) -> Design:
    """m uniform over {0, 1}ⁿ, weighted by the Shapley kernel, as Baumhauer (2021) prints it."""
    coalitions = rng.random((count, players)) < 0.5
    return _design(coalitions, shapley_kernel(coalitions), together=1)


def _paired(players: int, count: int, rng: np.random.Generator) -> Design:
    """A size ∝ 1/(s(n − s)), a subset of it, then its complement: the kernel is in the drawing."""
    drawn = rng.random((count // 2, 1 + players))
    size = np.searchsorted(size_shares(players).cumsum(), drawn[:, 0], side="right")
    size = size.clip(1, players - 1)  # the shares may add up to a little less than 1
    chosen = subsets(drawn[:, 1:], size)
    coalitions = np.stack((chosen, ~chosen), axis=1).reshape(-1, players)
    return _design(coalitions, np.ones(len(coalitions)), together=2)


def _permutation(players: int, count: int, rng: np.random.Generator) -> Design:
    """The n − 1 beginnings of an order of the players, then those of the reverse order."""
    orders = count // (2 * (players - 1))
    place = rng.random((orders, players)).argsort(axis=1).argsort(axis=1)
    both = np.stack((place, players - 1 - place), axis=1)
    coalitions = both[:, :, None, :] < np.arange(1, players)[:, None]  # [orders, 2, n − 1, n]
    flat = coalitions.reshape(-1, players)
    return _design(flat, np.ones(len(flat)), together=2 * (players - 1))


def _exact(players: int, count: int, rng: np.random.Generator) -> Design:
    """All 2ⁿ − 2 coalitions but the empty and the full one."""
    number = np.arange(1, 2**players - 1)
    coalitions = (number[:, None] >> np.arange(players)) & 1 == 1
    return _design(coalitions, shapley_kernel(coalitions), together=0)


DRAW: Final[dict[Sampler, Callable[[int, int, np.random.Generator], Design]]] = {
    "paired": _paired,
    "uniform": _uniform,
    "permutation": _permutation,
    "exact": _exact,
}
# One draw more than the n − 1 numbers that are sought; two orders and their reverses for a spread.
LEAST: Final[dict[Sampler, Callable[[int], int]]] = {
    "paired": lambda players: 2 * players,
    "uniform": lambda players: players,
    "permutation": lambda players: 4 * (players - 1),
    "exact": lambda players: 2**players - 2,
}


def shapley_kernel(coalitions: Bools) -> npt.NDArray[np.float64]:
    """`[c]`: ∝ (n − 1) / (C(n, s)·s·(n − s)), at most 1; 0 for the empty and the full coalition.

    What those two would say with infinite weight is in the equations that the solver keeps exactly.
    """
    players = coalitions.shape[1]
    size = torch.arange(players + 1, dtype=torch.float64)
    factorials = torch.lgamma(size + 1)
    of_size = factorials[-1] - factorials - factorials.flip(0)  # ln C(n, s), which may be large
    logarithm = torch.from_numpy(size_shares(players)).log() - of_size
    weights = logarithm[torch.from_numpy(coalitions.sum(axis=1))]
    if len(weights):
        weights = weights - weights.max().clamp(min=torch.finfo(weights.dtype).min)
    found: npt.NDArray[np.float64] = weights.exp().numpy()
    return found


def subsets(drawn: npt.NDArray[np.float64], size: npt.NDArray[np.int64]) -> Bools:
    """Of each row the so many players that drew the smallest numbers."""
    ordered = np.column_stack((np.sort(drawn, axis=1), np.ones(len(drawn))))
    chosen: Bools = drawn < ordered[np.arange(len(drawn)), size][:, None]
    return chosen


def _design(coalitions: Bools, weights: npt.NDArray[np.float64], together: int) -> Design:
    return Design(torch.from_numpy(coalitions), torch.from_numpy(weights), together)


def kept(build: Callable[[int, int, *Others], T]) -> Callable[[int, int, *Others], T]:
    """Remembers what was built for so many players and coalitions, in bounded memory."""
    many, few = lru_cache(maxsize=256)(build), lru_cache(maxsize=4)(build)

    def find(players: int, count: int, /, *others: *Others) -> T:
        memory = many if players * count <= SMALL else few
        return memory(players, count, *others)

    return find
