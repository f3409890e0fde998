"""Experts beside other explainers of the same groups: do they agree, and do seeds agree by them?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from whence.arrays import Floats, Ints
from whence.explanation import Explanation
from whence.trust.agreement.rank_agreement import spearman
from whence.trust.stability.seed_pairs import SeedPairs, attention_kl, choice_in_common
from whence_studies.measurements.between_seeds import ratio_over_seeds

METHODS: Final = ("experts", "shapley", "leave-one-out", "gradient-input", "random")
RHO: Final = {name: f"rho({name}, Shapley)" for name in METHODS if name != "shapley"}
SAME: Final = "same expert by two seeds"
KL: Final = {name: f"KL between seeds, {name}" for name in METHODS}

MethodExplanations = Mapping[str, Explanation]
"""What each method says of the same cases, by one seed's model."""


def rhos(told: Sequence[MethodExplanations]) -> dict[str, list[float]]:
    """By column, one value a seed: how alike groups are ranked by size and by Shapley values."""
    return {
        column: [_rho(one[name], one["shapley"]) for one in told]
        for name, column in RHO.items()
        if name in told[0]
    }


def seeds_apart(told: Sequence[MethodExplanations]) -> dict[str, SeedPairs]:
    """By column, how far every two seeds are apart."""
    return {
        KL[name]: attention_kl(sizes, told[0][name].parts)
        for name, sizes in sizes_by_method(told).items()
    }


def sizes_by_method(told: Sequence[MethodExplanations]) -> dict[str, Floats]:
    """`[S, B, n]`: how important each group is by each method."""
    return {
        name: np.stack([one[name].magnitude() for one in told])
        for name in METHODS
        if name in told[0]
    }


def same_where_chosen(chosen: Ints, expert: int) -> list[float]:
    """One value a seed: where a seed selects this expert most, how often does another as well?

    Of all pairs of the seeds in `[S, B]`; none where fewer than two of them ever select it.
    """
    choosing = chosen == expert
    if choosing.any(axis=1).sum() < 2:
        return []
    return ratio_over_seeds(*choice_in_common(choosing))


def _rho(one: Explanation, other: Explanation) -> float:
    """Over the cases in which both tell groups apart; 0 where there is none."""
    values = spearman(one.magnitude(), other.magnitude(), one.parts)
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else 0.0
