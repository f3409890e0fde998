"""Weights of models that recommend together, chosen on the validation events.

Each model gets the temperature T with which softmax(score / T) makes the validation events most
likely. Together they get the weights w with which the softmax of Σ w · score / T does. Both
problems are convex, so there is one solution, and no grid to search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from whence.arrays import Floats
from whence.data.histories import Cases
from whence.memory import cases_at_once, row_slices
from whence.models.base import Recommender
from whence.models.ensemble import Weight
from whence.randomness import Randomness
from whence.ranking import score_all, seen_items

SCORES: Final = 16_000_000
"""The most scores of each model that are held; as many validation cases are drawn."""
LEAST_GAIN: Final = 1.92
"""A model that adds less to the log-likelihood of all validation events is left out, as by a
likelihood-ratio test at 5 %. Otherwise chance would give weights to models without information."""
SHARPEST: Final = 1e4
"""The largest factor, in standard deviations of the scores: for scores that decide everything."""


class ValidationScores:
    """The scores of all items for some cases whose next items are known."""

    def __init__(self, cases: Cases, item_count: int, device: str | torch.device = "cpu") -> None:
        on_gpu = torch.device(device).type == "cuda"
        drawn = Randomness(0).numpy("evaluation").permutation(len(cases))
        self.cases = cases[np.sort(drawn[: max(1, SCORES // item_count)])]
        self.targets = torch.from_numpy(self.cases.targets)[:, None].to(device)
        row, item = (one.to(device) for one in seen_items(self.cases))
        rival = item != self.targets[row, 0]
        self.seen = row[rival], item[rival]
        """Rows and items that cannot be recommended."""
        self.at_once = cases_at_once(item_count, on_gpu)

    @torch.no_grad()
    def of(self, model: Recommender) -> Tensor:
        """Return `[B, items]`: the scores, relative to that of the next item."""
        found = []
        for rows in row_slices(len(self.cases), self.at_once):
            scores = score_all(model, self.cases[rows], model.config.max_len)
            found.append(scores - scores.gather(1, self.targets[rows]))
        return torch.cat(found)

    def fit_weights(self, scores: Sequence[Tensor]) -> list[Weight]:
        """Return a weight and a temperature for the scores of each model.

        A model that brings nothing gets the weight 0.
        """
        temperatures = np.array([1 / self._most_likely([one])[0] for one in scores])
        factors = self._most_likely(scores)
        weights = factors * temperatures
        few = self._gains(scores, factors) < LEAST_GAIN
        if few.any() and not few.all():
            kept = np.flatnonzero(~few).tolist()
            weights[few] = 0
            weights[kept] = self._most_likely([scores[n] for n in kept]) * temperatures[kept]
        return [Weight(*one) for one in zip(weights.tolist(), temperatures.tolist(), strict=True)]

    def _gains(self, scores: Sequence[Tensor], factors: Floats) -> Floats:
        """Return what each model adds to the log-likelihood, if the others keep their factors."""
        whole = self._surprise(scores, factors)[0]
        without = (np.where(np.arange(len(scores)) == n, 0, factors) for n in range(len(scores)))
        lost = [self._surprise(scores, one)[0] - whole for one in without]
        return len(self.cases) * np.array(lost)

    def _most_likely(self, scores: Sequence[Tensor]) -> Floats:
        """Return the factors for which the next items are most likely."""
        sizes = np.array([max(float(one.std()), 1e-12) for one in scores])
        smallest = 1 / (SHARPEST * sizes) if len(scores) == 1 else np.zeros(len(scores))
        found: Floats = minimize(
            lambda factors: self._surprise(scores, factors),
            1 / (len(scores) * sizes),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(smallest, SHARPEST / sizes, strict=True)),
        ).x
        return found

    def _surprise(self, scores: Sequence[Tensor], factors: Floats) -> tuple[float, Floats]:
        """Return the mean −log p of the next items, and its gradient.

        A score is relative to that of the next item, so −log p = log Σ_i exp(Σ_m a_m s_mi).
        """
        total = scores[0] * float(factors[0])
        for one, factor in zip(scores[1:], factors[1:], strict=True):
            total.add_(one, alpha=float(factor))
        total[self.seen] = -torch.inf
        surprise = total.logsumexp(dim=1, keepdim=True)
        likelihood = total.sub_(surprise).exp_().div_(len(total))
        gradient = [float((likelihood * one).sum(dtype=torch.float64)) for one in scores]
        return float(surprise.mean(dtype=torch.float64)), np.array(gradient)
