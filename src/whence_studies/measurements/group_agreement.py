"""Agreement of experts with other explainers of the same groups, and between seeds."""

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
"""By method: the explanations of the same cases, for one seed's model."""


def rhos(explained: Sequence[MethodExplanations]) -> dict[str, list[float]]:
    """Return by column, per seed, how well group ranks agree with those of Shapley values."""
    return {
        column: [_rho(one[name], one["shapley"]) for one in explained]
        for name, column in RHO.items()
        if name in explained[0]
    }


def seed_differences(explained: Sequence[MethodExplanations]) -> dict[str, SeedPairs]:
    """Return by column how much every two seeds differ."""
    return {
        KL[name]: attention_kl(sizes, explained[0][name].parts)
        for name, sizes in sizes_by_method(explained).items()
    }


def sizes_by_method(explained: Sequence[MethodExplanations]) -> dict[str, Floats]:
    """Return `[S, B, n]`: the importance of each group by each method."""
    return {
        name: np.stack([one[name].magnitude() for one in explained])
        for name in METHODS
        if name in explained[0]
    }


def same_where_chosen(chosen: Ints, expert: int) -> list[float]:
    """Return, per seed, how often another seed selects this expert most where one seed does.

    It covers all pairs of the seeds in `[S, B]`; it is empty if fewer than two ever select it.
    """
    choosing = chosen == expert
    if choosing.any(axis=1).sum() < 2:
        return []
    return ratio_over_seeds(*choice_in_common(choosing))


def _rho(one: Explanation, other: Explanation) -> float:
    """Return the mean over cases in which both methods distinguish groups, or 0."""
    values = spearman(one.magnitude(), other.magnitude(), one.parts)
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else 0.0
