"""Temperature scaling: divide all logits by one fitted number (Guo et al. 2017).

It changes no prediction, only the confidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from torch import Tensor

from whence.errors import InputError
from whence.measure import Measure
from whence.trust.calibration.calibration_error import (
    expected_calibration_error,
    negative_log_likelihood,
)
from whence.trust.predictions import (
    Logits,
    Predictions,
    Users,
    at_least_single,
    check_logits,
    predictions_from_logits,
)

FURTHEST: Final = math.log(1e6)
"""The largest |ln T|; beyond it the softmax is one class or uniform."""
STRIDE: Final = 2.0
"""The largest step in ln T, because a flat slope would lead too far."""
EXACT: Final = 1e-7
"""The precision of ln T."""
PASSES: Final = 60


@dataclass(frozen=True, eq=False)
class TemperatureScaling:
    """A temperature, and predictions before and after it on cases it was not fitted on."""

    temperature: float
    before: Predictions
    after: Predictions

    def measures(self, seed: int = 0) -> dict[str, tuple[Measure, Measure]]:
        """Return the measures before and after, by name."""
        return {
            "negative log-likelihood": (
                negative_log_likelihood(self.before, seed),
                negative_log_likelihood(self.after, seed),
            ),
            "expected calibration error": (
                expected_calibration_error(self.before, seed=seed),
                expected_calibration_error(self.after, seed=seed),
            ),
        }


def temperature_scaling(
    validation: Logits, test: Logits, users: Users | None = None
) -> TemperatureScaling:
    """Fit the temperature on validation cases and apply it to test cases, with their users."""
    temperature = fit_temperature(validation)
    before, after = (predictions_from_logits(test, one) for one in (1.0, temperature))
    if users is not None:
        before, after = before.with_users(users), after.with_users(users)
    return TemperatureScaling(temperature, before, after)


@torch.no_grad()
def fit_temperature(logits: Logits) -> float:
    """Return the T that minimizes the negative log-likelihood of softmax(z / T).

    It is convex in β = 1 / T: its derivative is the mean of E[z] − z of the true class, and its
    second derivative the mean of Var[z]. Newton's method in ln β, bracketed by what is known to be
    too low and too high, takes about six passes over the logits.
    """
    found = _slope(logits, 1.0)
    if found.only_right:
        raise InputError(
            f"No temperature is optimal: the model is right in all of {found.cases:,} cases, so "
            "more confidence is always better; fit it on more cases."
        )
    at, low, high = 0.0, -math.inf, math.inf
    for _ in range(PASSES):
        low, high = (low, at) if found.slope > 0 else (at, high)
        to = min(max(at + found.step(math.exp(at)), -FURTHEST), FURTHEST)
        if to != at and not low < to < high:
            to = (low + high) / 2
        moved, at = abs(to - at), to
        if moved < EXACT:
            break
        found = _slope(logits, math.exp(at))
    if at <= -FURTHEST:
        raise InputError(
            "No temperature is optimal: the logits of the true classes are no higher than the "
            "others, so less confidence is always better."
        )
    return math.exp(-at)


class _Slope(NamedTuple):
    """The derivatives of the negative log-likelihood at some β = 1 / T."""

    slope: float
    curvature: float
    cases: int
    only_right: bool
    """Whether the true class has the highest logit in every case."""

    def step(self, beta: float) -> float:
        """Return the Newton step in ln β."""
        if abs(self.slope) >= STRIDE * beta * self.curvature:
            return -math.copysign(STRIDE, self.slope)
        return -self.slope / (beta * self.curvature)


def _slope(logits: Logits, beta: float) -> _Slope:
    total = torch.zeros(3, dtype=torch.float64)
    cases = 0
    for some, true in logits():
        check_logits(some, true)
        total += _sums(at_least_single(some), true, beta).cpu()
        cases += len(some)
    if not cases:
        raise InputError("Fitting a temperature needs at least one case; there are none.")
    slope, curvature, wrong = total.tolist()
    if math.isinf(slope):
        raise InputError(
            "A true class has the logit −∞, which no temperature can change; leave this case out."
        )
    return _Slope(slope / cases, curvature / cases, cases, wrong == 0)


def _sums(logits: Tensor, true: Tensor, beta: float) -> Tensor:
    """Return the sums `[3]` of E[z] − z of the true class, of Var[z], and of wrong predictions."""
    below = logits - logits.amax(dim=1, keepdim=True)
    own = below.gather(1, true[:, None])[:, 0]
    p = (below * beta).softmax(dim=1)
    below.masked_fill_(below == -torch.inf, 0)  # these have p = 0
    mean = (p * below).sum(dim=1)
    variance = p.mul_(below.sub_(mean[:, None]).square_()).sum(dim=1)
    return torch.stack((mean - own, variance, (own < 0).to(own))).double().sum(dim=1)
