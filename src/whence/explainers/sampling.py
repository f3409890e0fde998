"""Which coalitions Shapley values are estimated from, and how much each of them weighs.

A design depends on the sampler, the number of players, the seed and the number of coalitions, never
on a case. Histories of one size share it (common random numbers). So a history's scores are the
same alone and in any batch, and no sampling noise lies between two histories. A longer design
starts with the coalitions of a shorter one, so that sampling can resume.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeVar, TypeVarTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.arrays import Bools
from whence.coalitions import size_shares
from whence.errors import InputError
from whence.randomness import Randomness

Sampler = Literal["paired", "permutation", "exact"]
T = TypeVar("T")
Others = TypeVarTuple("Others")

SMALL: Final = 2**18
"""Entries of a design up to which many designs are cached; of larger ones only a few."""


@dataclass(frozen=True, eq=False)
class Design:
    """`c` coalitions of `n` players, and how they were drawn."""

    coalitions: Tensor
    """Bool `[c, n]`."""
    weights: Tensor
    """`[c]`: in the regression."""
    draw_size: int
    """Consecutive coalitions that come from one independent draw; 0 if nothing was drawn."""


def draw_design(players: int, count: int, sampler: Sampler, seed: int) -> Design:
    """Return at most `count` coalitions: as many as make whole draws."""
    least = MINIMUM[sampler](players)
    if count < least:
        raise InputError(
            f"coalitions is {count:,}, but Shapley values of {players} items need at least "
            f"{least:,}. Set coalitions={least} or more."
        )
    return SAMPLERS[sampler](players, count, Randomness(seed).numpy("explain"))


def _paired(players: int, count: int, rng: np.random.Generator) -> Design:
    """A size ∝ 1/(s(n − s)), a subset of it, then its complement; no weights are needed."""
    drawn = rng.random((count // 2, 1 + players))
    size = np.searchsorted(size_shares(players).cumsum(), drawn[:, 0], side="right")
    size = size.clip(1, players - 1)  # the shares may add up to a little less than 1
    chosen = subsets(drawn[:, 1:], size)
    coalitions = np.stack((chosen, ~chosen), axis=1).reshape(-1, players)
    return _unweighted(coalitions, draw_size=2)


def _permutation(players: int, count: int, rng: np.random.Generator) -> Design:
    """The n − 1 prefixes of an order of the players, then those of the reverse order."""
    orders = count // (2 * (players - 1))
    place = rng.random((orders, players)).argsort(axis=1).argsort(axis=1)
    both = np.stack((place, players - 1 - place), axis=1)
    coalitions = both[:, :, None, :] < np.arange(1, players)[:, None]  # [orders, 2, n − 1, n]
    return _unweighted(coalitions.reshape(-1, players), draw_size=2 * (players - 1))


def _exact(players: int, count: int, rng: np.random.Generator) -> Design:
    """All 2ⁿ − 2 coalitions except the empty and the full one."""
    number = np.arange(1, 2**players - 1)
    coalitions = torch.from_numpy((number[:, None] >> np.arange(players)) & 1 == 1)
    return Design(coalitions, shapley_kernel(coalitions), draw_size=0)


SAMPLERS: Final[dict[Sampler, Callable[[int, int, np.random.Generator], Design]]] = {
    "paired": _paired,
    "permutation": _permutation,
    "exact": _exact,
}
# One draw more than the n − 1 unknowns; two orders with their reverses for a standard error.
MINIMUM: Final[dict[Sampler, Callable[[int], int]]] = {
    "paired": lambda players: 2 * players,
    "permutation": lambda players: 4 * (players - 1),
    "exact": lambda players: 2**players - 2,
}


def shapley_kernel(coalitions: Tensor) -> Tensor:
    """Return `[…, c]`: ∝ (n − 1) / (C(n, s)·s·(n − s)), at most 1, for coalitions `[…, c, n]`.

    The empty and the full one get 0. Their weight is infinite, so a solver satisfies their
    equations exactly instead.
    """
    players = coalitions.shape[-1]
    size = torch.arange(players + 1, dtype=torch.float64)
    factorials = torch.lgamma(size + 1)
    of_size = factorials[-1] - factorials - factorials.flip(0)  # ln C(n, s), which may be large
    logarithm = torch.from_numpy(size_shares(players)).log() - of_size
    weights = logarithm.to(coalitions.device)[coalitions.sum(dim=-1)]
    if weights.numel():
        largest = weights.amax(dim=-1, keepdim=True)
        weights = weights - largest.clamp(min=torch.finfo(weights.dtype).min)
    return weights.exp()


def subsets(drawn: npt.NDArray[np.float64], size: npt.NDArray[np.int64]) -> Bools:
    """Return, for each row, the `size` players with the smallest numbers."""
    ordered = np.column_stack((np.sort(drawn, axis=1), np.ones(len(drawn))))
    chosen: Bools = drawn < ordered[np.arange(len(drawn)), size][:, None]
    return chosen


def _unweighted(coalitions: Bools, draw_size: int) -> Design:
    weights = torch.ones(len(coalitions), dtype=torch.float64)
    return Design(torch.from_numpy(coalitions), weights, draw_size)


def cached_by_size(build: Callable[[int, int, *Others], T]) -> Callable[[int, int, *Others], T]:
    """Cache what was built for a number of players and coalitions, in bounded memory."""
    many, few = lru_cache(maxsize=256)(build), lru_cache(maxsize=4)(build)

    def find(players: int, count: int, /, *others: *Others) -> T:
        cache = many if players * count <= SMALL else few
        return cache(players, count, *others)

    return find
