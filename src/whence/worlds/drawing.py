"""Worlds whose parameters are drawn at random."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

import numpy as np

from whence.errors import InputError
from whence.worlds.designs import GENERATORS, MOST_GROUPS, CausalConfig, Generator

ITEMS_PER_GROUP: Final = 25
"""The fewest in a wide world, on average."""


def draw_config(generator: Generator, seed: int, **given: object) -> CausalConfig:
    """Draw the parameters of a world at random; the same seed gives the same ones."""
    rng = np.random.default_rng(np.random.SeedSequence([GENERATORS.index(generator), seed]))

    def between(low: float, high: float) -> float:
        return round(float(rng.uniform(low, high)), 3)

    drawn = {
        "users": int(rng.integers(5_000, 15_001)),
        "items": int(rng.integers(300, 1_001)),
        "events": int(rng.integers(25, 56)),
        "groups": int(rng.integers(5, 13)),
        "tied": between(0.15, 0.3),
        "paired": between(0.03, 0.06),
        "rivals": between(0.05, 0.1),
        "tie_rate": between(0.15, 0.5),
        "pair_rate": between(0.15, 0.5),
        "half_life": between(3.0, 12.0),
        "taste": between(0.4, 0.7),
        "noise": between(0.02, 0.1),
        "spontaneous": between(0.1, 1.0),
        "shared": between(0.0, 0.7),
        "across": between(0.0, 0.6) if generator != "shop" else between(0.3, 0.9),
        "acceptance": between(0.0, 0.2),
        "drift": between(0.0, 1.0),
        "concentration": between(0.1, 0.6),
        "mood": between(0.3, 0.8) if generator == "music" else 0.0,
        "stay": between(0.8, 0.95),
    }
    unknown = set(given) - {field.name for field in fields(CausalConfig)}
    if unknown:
        raise InputError(f"A world has no setting {', '.join(sorted(unknown))}.")
    return CausalConfig(**{"generator": generator, "seed": seed, **drawn, **given})  # type: ignore[arg-type]


def draw_wide_config(generator: Generator, seed: int) -> CausalConfig:
    """Draw the parameters of a world with more items than those of `draw_config`.

    Users may choose fewer of them, and have finer tastes: most such worlds have more groups than
    there are names for them.
    """
    rng = np.random.default_rng(np.random.SeedSequence([GENERATORS.index(generator), seed, 1]))

    def between(low: float, high: float) -> float:
        """Draw a number whose logarithm is uniform."""
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    items = round(between(800, 5_000))
    groups = round(between(8, min(MOST_GROUPS, items / ITEMS_PER_GROUP)))
    return draw_config(
        generator,
        seed,
        users=int(rng.integers(6_000, 20_001)),
        items=items,
        events=round(between(8, 60)),
        groups=groups,
        concentration=round(between(0.5, 6.0) / groups, 4),
    )
