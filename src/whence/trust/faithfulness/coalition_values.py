"""Coalition values: does an explanation predict the score when only some parts are present?

The sum of the importances of the present parts is what an explanation predicts. Coalitions are
drawn by Shapley's kernel, from another random stream than the explainers', and scored once. Any
number of explanations of the same cases can then be compared with the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Bools, Floats, Ints
from whence.capabilities import require
from whence.contract import Explainable
from whence.devices import device_of
from whence.errors import InputError
from whence.explainers.explain import make_requests
from whence.explainers.game import games
from whence.explainers.sampling import SAMPLERS, Design, Sampler, cached_by_size
from whence.explanation import Explanation
from whence.measure import Measure, mean_over_cases
from whence.memory import memory_for
from whence.randomness import Randomness
from whence.trust.measures import MEASURES, MeasureSpec

FEWEST: Final = 4
"""The smallest number of coalitions; any two points lie on a line."""
GAP: Final = 1e-3
"""The largest error of the sum rule, relative to the sizes of importances."""
ROUNDING: Final = 1e-6
"""The largest error relative to the scores, because of single precision."""


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of the same `c` coalitions in `b` cases whose `p` parts are in the same slots."""

    cases: Ints
    """`[b]`."""
    slots: Ints
    """`[p]`."""
    coalitions: Bools
    """`[c, p]`."""
    weights: Floats
    """`[c]`: the weight of each coalition; they add up to 1."""
    values: Floats
    """`[b, c]`: v(S)."""

    def expected(self, scores: Floats) -> Floats:
        """Return the sums `[b, c]` of the importances `[B, n]` of the present parts."""
        added: Floats = scores[self.cases[:, None], self.slots] @ self.coalitions.T
        return added

    def correlation(self, explanation: Explanation) -> Floats:
        """Return Pearson's correlation over the coalitions `[b]`."""
        one, two = (
            self._centred(said) for said in (self.expected(explanation.scores), self.values)
        )
        spread = np.sqrt((one**2 @ self.weights) * (two**2 @ self.weights))
        found: Floats = np.full(len(spread), np.nan)
        np.divide((one * two) @ self.weights, spread, out=found, where=spread > 0)
        return found.clip(-1.0, 1.0)

    def fit(self, explanation: Explanation) -> Floats:
        """Return R² of f(∅) plus the sum `[b]`."""
        expected = explanation.empty_score[self.cases, None] + self.expected(explanation.scores)
        missed = (self.values - expected) ** 2 @ self.weights
        spread = self._centred(self.values) ** 2 @ self.weights
        found: Floats = np.full(len(spread), np.nan)
        np.divide(missed, spread, out=found, where=spread > 0)
        return 1 - found

    def _centred(self, values: Floats) -> Floats:
        """Return the values minus their mean; exactly 0 if all are equal."""
        varied = values.max(axis=1, keepdims=True) > values.min(axis=1, keepdims=True)
        centred: Floats = np.where(varied, values - (values @ self.weights)[:, None], 0.0)
        return centred


@dataclass(frozen=True, eq=False)
class CoalitionValues:
    """The scores of coalitions of each case's parts, for judging explanations."""

    parts: Bools
    """`[B, n]`."""
    target: Ints
    """`[B]`."""
    scored: tuple[Scored, ...]
    """Each case with at least two parts, once; a single part has no coalition to score."""
    protocol: str

    def correlation(self, explanation: Explanation) -> Floats:
        """Return Pearson's correlation of predicted and true scores `[B]`; NaN without variation.

        Two parts have only two coalitions, which gives 1 or −1.
        """
        return self._by_case(explanation, lambda some: some.correlation(explanation))

    def fit(self, explanation: Explanation) -> Floats:
        """Return R² of f(∅) + Σ importances `[B]`: 1 is exact, 0 no better than the mean.

        It may be negative, even for Shapley values, which fit all coalitions best among importances
        that add up. It is NaN if the scores do not vary. Raises if the importances do not add up to
        f(N) − f(∅), because they are then not in units of the score.
        """
        if not keeps_sum_rule(explanation):
            raise InputError(
                f"The importances by '{explanation.method}' do not add up to f(N) − f(∅), so R² is "
                "not defined; use value_correlation instead."
            )
        return self._by_case(explanation, lambda some: some.fit(explanation))

    def _by_case(self, explanation: Explanation, compute: Callable[[Scored], Floats]) -> Floats:
        same = np.array_equal(explanation.parts, self.parts)
        if not same or not np.array_equal(explanation.target, self.target):
            raise InputError("The explanation and the coalition values are of different cases.")
        found = np.full(len(self.parts), np.nan)
        for some in self.scored:
            found[some.cases] = compute(some)
        return found


def value_correlation(explanation: Explanation, values: CoalitionValues) -> Measure:
    """Return the mean correlation of Σ importances with the scores, for any explainer."""
    protocol = (
        f"mean over histories of Pearson's correlation of Σ importances with {values.protocol}"
    )
    found = values.correlation(explanation)
    return mean_over_cases(found, protocol, "higher is better", (-1.0, 1.0))


def value_fit(explanation: Explanation, values: CoalitionValues) -> Measure:
    """Return the mean R² of f(∅) + Σ importances, for an explainer that keeps the sum rule."""
    protocol = f"mean over histories of R² of f(∅) + Σ importances for {values.protocol}"
    found = values.fit(explanation)
    return mean_over_cases(found, protocol, "higher is better", (-math.inf, 1.0))


@torch.no_grad()
def coalition_values(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    coalitions: int = 256,
    seed: int = 0,
    memory: int | None = None,
) -> CoalitionValues:
    """Return the target's score under at most `coalitions` coalitions of each case.

    Coalitions are drawn as for Shapley values, the same for all cases with equally many parts. The
    empty and the full coalition are not among them, because an explanation knows their scores.
    """
    require(model, ("parts", "score"), who="the measure of coalition values")
    if coalitions < FEWEST:
        raise InputError(f"coalitions must be at least {FEWEST}, not {coalitions}.")
    device = device_of(model)
    batch, targets = batch.to(device), targets.to(device)
    memory = memory or memory_for(device)
    first, scored = 0, []
    requests = make_requests(model, batch, targets, seed, memory)
    for request in requests:
        for cases, game in games(request, coalitions):
            if game.players > 1:
                design = _find_design(game.players, coalitions, seed)
                weights = design.weights.numpy()
                scored.append(
                    Scored(
                        cases=first + cases.cpu().numpy(),
                        slots=game.slots.cpu().numpy(),
                        coalitions=design.coalitions.numpy(),
                        weights=weights / weights.sum(),
                        values=game(design.coalitions).cpu().numpy(),
                    )
                )
        first += len(request)
    return CoalitionValues(
        parts=torch.cat([request.parts for request in requests]).cpu().numpy(),
        target=targets.cpu().numpy(),
        scored=tuple(scored),
        protocol=f"the scores of at most {coalitions:,} coalitions; removal: {model.removal}",
    )


@cached_by_size
def _find_design(players: int, count: int, seed: int) -> Design:
    """Draw from the stream "evaluation", which explainers do not use."""
    sampler: Sampler = "exact" if 2**players - 2 <= count else "paired"
    return SAMPLERS[sampler](players, count, Randomness(seed).numpy("evaluation"))


def keeps_sum_rule(explanation: Explanation) -> bool:
    """Return whether the importances of every case add up to f(N) − f(∅), up to rounding."""
    full, empty = explanation.full_score, explanation.empty_score
    gap = np.abs(full - empty - explanation.scores.sum(axis=1))
    rounding = ROUNDING * (np.abs(full) + np.abs(empty))
    return bool((gap <= GAP * explanation.magnitude().sum(axis=1) + rounding).all())


MEASURES.add(
    "value-correlation",
    MeasureSpec(
        value_correlation,
        "Does the sum of the importances of the present parts correlate with the score?",
        "higher is better",
        (-1.0, 1.0),
        lambda small: (small.signed, small.values),
    ),
)
MEASURES.add(
    "value-fit",
    MeasureSpec(
        value_fit,
        "Does it predict the score itself?",
        "higher is better",
        (-math.inf, 1.0),
        lambda small: (small.shapley, small.values),
    ),
)
