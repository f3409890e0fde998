"""Values: does an explanation foretell the scores of coalitions it has not necessarily seen?

The importances of the parts that are present, added up, are what an explanation expects of their
score. Coalitions are drawn by Shapley's kernel, from another stream of chance than an explainer's,
and scored once; any number of explanations of the same cases can be held against them.
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

FEWEST: Final = 4
"""Coalitions; any two points lie on a line."""
GAP: Final = 1e-3
"""Share of the importances' sizes by which their sum may miss the difference of the scores."""
ROUNDING: Final = 1e-6
"""The same as a share of the scores themselves, which single precision does not tell apart."""


@dataclass(frozen=True, eq=False)
class Scored:
    """The values of the same `c` coalitions in `b` cases whose `p` parts lie in the same slots."""

    cases: Ints
    """`[b]`."""
    slots: Ints
    """`[p]`."""
    coalitions: Bools
    """`[c, p]`."""
    weights: Floats
    """`[c]`, of sum 1: what each coalition counts."""
    values: Floats
    """`[b, c]`: v(S)."""

    def expected(self, scores: Floats) -> Floats:
        """`[b, c]`: the sum of importances `[B, n]` of the parts that are present."""
        added: Floats = scores[self.cases[:, None], self.slots] @ self.coalitions.T
        return added

    def correlation(self, explanation: Explanation) -> Floats:
        """`[b]`: Pearson's, over coalitions."""
        one, two = (
            self._centred(said) for said in (self.expected(explanation.scores), self.values)
        )
        spread = np.sqrt((one**2 @ self.weights) * (two**2 @ self.weights))
        found: Floats = np.full(len(spread), np.nan)
        np.divide((one * two) @ self.weights, spread, out=found, where=spread > 0)
        return found.clip(-1.0, 1.0)

    def fit(self, explanation: Explanation) -> Floats:
        """`[b]`: R² of f(∅) and the sum."""
        expected = explanation.empty_score[self.cases, None] + self.expected(explanation.scores)
        missed = (self.values - expected) ** 2 @ self.weights
        spread = self._centred(self.values) ** 2 @ self.weights
        found: Floats = np.full(len(spread), np.nan)
        np.divide(missed, spread, out=found, where=spread > 0)
        return 1 - found

    def _centred(self, values: Floats) -> Floats:
        """Less the mean; exactly 0 where all are the same."""
        varied = values.max(axis=1, keepdims=True) > values.min(axis=1, keepdims=True)
        centred: Floats = np.where(varied, values - (values @ self.weights)[:, None], 0.0)
        return centred


@dataclass(frozen=True, eq=False)
class CoalitionValues:
    """The scores of coalitions of each case's parts, by which explanations can be judged."""

    parts: Bools
    """`[B, n]`."""
    target: Ints
    """`[B]`."""
    scored: tuple[Scored, ...]
    """Every case of at least two parts once; of one part there is no coalition to score."""
    protocol: str

    def correlation(self, explanation: Explanation) -> Floats:
        """`[B]`: Pearson's between expected and true scores; NaN where either does not vary.

        Two parts have but two coalitions, and there it is 1 or −1.
        """
        return self._by_case(explanation, lambda some: some.correlation(explanation))

    def fit(self, explanation: Explanation) -> Floats:
        """`[B]`: R² of f(∅) + Σ importances; 1 is foretold exactly, 0 no better than the mean.

        It may be negative, even for Shapley values, than which none that add up fit all coalitions
        better; it is NaN where the scores do not vary. Refused where the importances do not add up
        to f(N) − f(∅), for then they are in no unit of the score.
        """
        if not keeps_sum_rule(explanation):
            raise InputError(
                f"The importances by '{explanation.method}' do not add up to the difference that "
                "the parts make; ask how they correlate with the scores instead."
            )
        return self._by_case(explanation, lambda some: some.fit(explanation))

    def _by_case(self, explanation: Explanation, compute: Callable[[Scored], Floats]) -> Floats:
        same = np.array_equal(explanation.parts, self.parts)
        if not same or not np.array_equal(explanation.target, self.target):
            raise InputError("The explanation and the coalitions' scores are of different cases.")
        found = np.full(len(self.parts), np.nan)
        for some in self.scored:
            found[some.cases] = compute(some)
        return found


def value_correlation(explanation: Explanation, values: CoalitionValues) -> Measure:
    """How well the importances of the parts present go with the score, by any explainer."""
    protocol = (
        f"mean over histories of Pearson's correlation of Σ importances with {values.protocol}"
    )
    found = values.correlation(explanation)
    return mean_over_cases(found, protocol, "higher is better", (-1.0, 1.0))


def value_fit(explanation: Explanation, values: CoalitionValues) -> Measure:
    """How well they foretell the score itself, by an explainer that keeps the sum rule."""
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
    """The target's score under so many coalitions of each case, or all where there are no more.

    Sizes and members are drawn as for Shapley values, the same for all cases of one number of
    parts; the empty and the full coalition, which an explanation knows, are not among them.
    """
    require(model, ("parts", "score"), who="the agreement of values")
    if coalitions < FEWEST:
        raise InputError(f"Ask for at least {FEWEST} coalitions, not {coalitions}.")
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
    """From the stream of evaluation: an explainer of the same seed has not drawn these."""
    sampler: Sampler = "exact" if 2**players - 2 <= count else "paired"
    return SAMPLERS[sampler](players, count, Randomness(seed).numpy("evaluation"))


def keeps_sum_rule(explanation: Explanation) -> bool:
    """Whether the importances of every case add up to f(N) − f(∅), but for rounding."""
    full, empty = explanation.full_score, explanation.empty_score
    gap = np.abs(full - empty - explanation.scores.sum(axis=1))
    rounding = ROUNDING * (np.abs(full) + np.abs(empty))
    return bool((gap <= GAP * explanation.magnitude().sum(axis=1) + rounding).all())
