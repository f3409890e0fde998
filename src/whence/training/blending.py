"""Weights of models that recommend together, chosen on the validation events, or a sample of them.

Each model gets the temperature T with which softmax(score / T) makes these events most likely.
Together they get the weights w with which the softmax of Σ w · score / T does. Both problems are
convex, so there is one solution, and no grid to search.
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
from whence.data.splits import Split
from whence.devices import device_of
from whence.memory import cases_at_once, row_slices
from whence.models.additive import AdditiveModel
from whence.models.base import Recommender
from whence.models.ensemble import Weight
from whence.randomness import Randomness
from whence.ranking import score_all, seen_items
from whence.training.recipes import ENOUGH_TO_STOP

SCORES: Final = 16_000_000
"""The most scores of each model that are held at a time."""
LEAST_GAIN: Final = 1.92
"""A model that adds less to the log-likelihood of these events, if the others take its place, is
left out (Wald 1943). Factors cannot be negative, so a model without information is kept with a
probability of 2.5 %."""
RIDGE: Final = 1e-9
"""Added to the diagonal of correlations, which are singular if two models have equal scores."""
SHARPEST: Final = 1e4
"""The largest factor, in standard deviations of the scores: for scores that decide everything."""


def sample_size(split: Split) -> int:
    """Return how many validation events fit into memory with the scores of all items."""
    return min(len(split.held.get("validation", ())), SCORES // split.interactions.item_count)


def enough_to_fit(split: Split) -> bool:
    """Return whether the sample is large enough, so that chance does not decide."""
    return sample_size(split) >= ENOUGH_TO_STOP


def calibrate(model: Recommender, split: Split) -> None:
    """Scale the sums of an additive model, so that their softmax tells the next item's probability.

    The order of the items stays the same.
    """
    if isinstance(model, AdditiveModel) and enough_to_fit(split):
        scores = ValidationScores(split, device_of(model))
        model.scale(1 / scores.temperature(scores.of(model)))


class ValidationScores:
    """The scores of all items for a sample of the validation events."""

    cases: Cases

    def __init__(self, split: Split, device: str | torch.device = "cpu") -> None:
        on_gpu = torch.device(device).type == "cuda"
        cases, item_count = split.held["validation"], split.interactions.item_count
        drawn = Randomness(0).numpy("evaluation").permutation(len(cases))
        self.cases = cases[np.sort(drawn[: max(1, sample_size(split))])]
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

    def temperature(self, scores: Tensor) -> float:
        """Return the number that the scores of a model are divided by to be logits."""
        return float(1 / self._most_likely([scores])[0])

    def fit_weights(self, scores: Sequence[Tensor]) -> list[Weight]:
        """Return a weight and a temperature for the scores of each model.

        A model that brings nothing gets the weight 0. They are left out one after another.
        """
        temperatures = np.array([self.temperature(one) for one in scores])
        kept = list(range(len(scores)))
        factors = self._most_likely(scores)
        while len(kept) > 1:
            gains = self._gains([scores[n] for n in kept], factors)
            worst = int(gains.argmin())
            if gains[worst] >= LEAST_GAIN:
                break
            del kept[worst]
            factors = self._most_likely([scores[n] for n in kept], np.delete(factors, worst))
        weights = np.zeros(len(scores))
        weights[kept] = factors * temperatures[kept]
        return [Weight(*one) for one in zip(weights.tolist(), temperatures.tolist(), strict=True)]

    def _gains(self, scores: Sequence[Tensor], factors: Floats) -> Floats:
        """Return about what each model adds to the log-likelihood, if the others are fitted anew.

        It is a² / 2V for a factor a, whose variance V is the entry of the inverse Hessian. The
        Hessian of −log p is the covariance of the scores, summed over the cases.
        """
        hessian = torch.zeros(len(scores), len(scores), dtype=torch.float64)
        likelihood = self._total(scores, factors).softmax(dim=1)
        for rows in row_slices(len(self.cases), self.at_once):
            each, likely = torch.stack([one[rows] for one in scores]), likelihood[rows]
            centred = each - (each * likely).sum(dim=2, keepdim=True)
            scaled = (centred * likely.sqrt()).flatten(1)
            hessian += (scaled @ scaled.T).double().cpu()
        sizes = hessian.diagonal().clamp(min=1e-300).sqrt()
        correlations = hessian / sizes[:, None] / sizes
        inverse = torch.linalg.inv(correlations + RIDGE * torch.eye(len(scores)))
        variances: Floats = (inverse.diagonal() / sizes**2).numpy()
        found: Floats = factors**2 / (2 * variances)
        return found

    def _most_likely(self, scores: Sequence[Tensor], start: Floats | None = None) -> Floats:
        """Return the factors for which the next items are most likely."""
        sizes = np.array([max(float(one.std()), 1e-12) for one in scores])
        smallest = 1 / (SHARPEST * sizes) if len(scores) == 1 else np.zeros(len(scores))
        found: Floats = minimize(
            lambda factors: self._surprise(scores, factors),
            1 / (len(scores) * sizes) if start is None else start,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(smallest, SHARPEST / sizes, strict=True)),
        ).x
        return found

    def _surprise(self, scores: Sequence[Tensor], factors: Floats) -> tuple[float, Floats]:
        """Return the mean −log p of the next items, and its gradient.

        A score is relative to that of the next item, so −log p = log Σ_i exp(Σ_m a_m s_mi).
        """
        total = self._total(scores, factors)
        surprise = total.logsumexp(dim=1, keepdim=True)
        likelihood = total.sub_(surprise).exp_().div_(len(total))
        gradient = [float((likelihood * one).sum(dtype=torch.float64)) for one in scores]
        return float(surprise.mean(dtype=torch.float64)), np.array(gradient)

    def _total(self, scores: Sequence[Tensor], factors: Floats) -> Tensor:
        """Return `[B, items]`: the weighted sum, −∞ for items that cannot be recommended."""
        total = scores[0] * float(factors[0])
        for one, factor in zip(scores[1:], factors[1:], strict=True):
            total.add_(one, alpha=float(factor))
        total[self.seen] = -torch.inf
        return total
