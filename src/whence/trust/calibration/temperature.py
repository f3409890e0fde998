"""Temperature: one number that makes a model as sure as it may be (Guo et al. 2017).

All logits are divided by it. It changes no prediction, only how sure the model is of it.
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
"""Of ln T from 0; beyond it only the first of the classes counts, or none does."""
STRIDE: Final = 2.0
"""At most so much further in ln T at a time, for where the slope is flat it leads too far."""
EXACT: Final = 1e-7
"""To which ln T is found."""
PASSES: Final = 60


@dataclass(frozen=True, eq=False)
class TemperatureScaling:
    """A temperature, and what it changes on cases on which it was not fitted."""

    temperature: float
    before: Predictions
    after: Predictions

    def measures(self, seed: int = 0) -> dict[str, tuple[Measure, Measure]]:
        """By name, before and after."""
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
    """Fitted on the one part and measured on the other, whose cases may be known to be of users."""
    temperature = fit_temperature(validation)
    before, after = (predictions_from_logits(test, one) for one in (1.0, temperature))
    if users is not None:
        before, after = before.of_users(users), after.of_users(users)
    return TemperatureScaling(temperature, before, after)


@torch.no_grad()
def fit_temperature(logits: Logits) -> float:
    """The T for which the negative log-likelihood of softmax(z / T) is least.

    With β = 1 / T it is convex: its slope is the mean of E[z] − z of the true class, and the slope
    of that the mean of Var[z]. Newton's method finds where the slope is 0, in ln β, kept between
    what is known to be too low and too high; it takes about six passes over the logits.
    """
    found = _slope(logits, 1.0)
    if found.only_right:
        raise InputError(
            f"No temperature is best: in none of {found.cases:,} cases has another class a higher "
            "logit than the true one, and the surer the model the better; fit it on more cases."
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
            "No temperature is best: the logits of the true classes are no higher than those of "
            "the others, and the less sure the model the better."
        )
    return math.exp(-at)


class _Slope(NamedTuple):
    """Of the negative log-likelihood at some β = 1 / T."""

    slope: float
    curvature: float
    cases: int
    only_right: bool
    """Whether no case has a class with a higher logit than the true one."""

    def step(self, beta: float) -> float:
        """How far to go in ln β to where the slope would be 0 if it were straight."""
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
        raise InputError("A temperature is fitted on at least one case; there is none.")
    slope, curvature, wrong = total.tolist()
    if math.isinf(slope):
        raise InputError(
            "A true class has the logit −∞, and no temperature makes it possible; leave its case "
            "out."
        )
    return _Slope(slope / cases, curvature / cases, cases, wrong == 0)


def _sums(logits: Tensor, true: Tensor, beta: float) -> Tensor:
    """`[3]`: E[z] − z of the true class, Var[z], and whether another is higher, added up."""
    below = logits - logits.amax(dim=1, keepdim=True)
    own = below.gather(1, true[:, None])[:, 0]
    p = (below * beta).softmax(dim=1)
    below.masked_fill_(below == -torch.inf, 0)  # where p is 0
    mean = (p * below).sum(dim=1)
    variance = p.mul_(below.sub_(mean[:, None]).square_()).sum(dim=1)
    return torch.stack((mean - own, variance, (own < 0).to(own))).double().sum(dim=1)
