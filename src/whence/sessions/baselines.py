"""Predictions that need no learning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from whence.sessions.halves import Flags, Halves


def last(halves: Halves) -> Flags:
    """Every track as the last one of the first half (equation 17 of Afchar & Hennequin 2020)."""
    final = halves.known_there.sum(axis=1) - 1
    skipped = np.take_along_axis(halves.known_skipped, final[:, None], axis=1)
    return np.broadcast_to(skipped, halves.asked_there.shape)


def mean(halves: Halves) -> Flags:
    """Every track as most of the first half (equation 18); a tie is a skip."""
    skipped = (halves.known_skipped & halves.known_there).sum(axis=1, keepdims=True)
    often = 2 * skipped >= halves.known_there.sum(axis=1, keepdims=True)
    return np.broadcast_to(often, halves.asked_there.shape)


def coin(seed: int = 0) -> Callable[[Halves], Flags]:
    """Heads is a skip; every call tosses anew."""
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    return lambda halves: rng.integers(0, 2, halves.asked_there.shape).astype(bool)


BASELINES: Final[Mapping[str, Callable[[Halves], Flags]]] = {"last": last, "mean": mean}
