"""What is predicted: one of two classes as published, one of several classes, or a real number.

Every expert has `n_outputs` outputs, `[H, outputs, R]`. The distance of an output from ignorance
gives the expert's confidence. For two classes it is |F|, whose square is the share of the label
variance (of labels −1 and 1, equally frequent) that the output explains. For several classes and
for real numbers the distance is the root of that same share. With an explicit centre the distance
is measured in probabilities, as published: |p − centre| for two classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.config import require_choice
from whence.errors import InputError


def first_invalid(values: Tensor, wrong: Tensor) -> float | None:
    """Return the first invalid value, or None; values cannot be read inside `torch.vmap`."""
    if torch._C._are_functorch_transforms_active() or not wrong.any():
        return None
    return float(values[wrong][0])


EPSILON = 1e-6
"""Smallest distance of a probability from 0 and 1, or offset added to it, in the published code."""
PRIOR_WEIGHT = 1e-9
"""Weight of an uninformed output in the mixture, relative to those of the experts."""
MIN_VARIANCE = 1e-4
"""Smallest share of a real number's variance that an expert may leave unexplained."""

Logarithm = Literal["exact", "clamped", "shifted"]


class Target(Protocol):
    """How expert outputs are interpreted."""

    @property
    def n_outputs(self) -> int:
        """Number of outputs of an expert."""

    @property
    def max_distance(self) -> float:
        """The largest distance an output can have."""

    @property
    def valid_labels(self) -> str:
        """The valid labels, as part of an error message."""

    def is_valid(self, labels: Tensor) -> Tensor:
        """Return whether each label is valid; any shape."""

    def distance(self, outputs: Tensor) -> Tensor:
        """Return the distance of each output from ignorance, `[H, R]`."""

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the negative log-likelihood of the labels `[R]`, `[H, R]`."""

    def mix(self, outputs: Tensor, weights: Tensor) -> Tensor:
        """Return the score of every target, `[R, t]`, from outputs mixed by weights `[H, R]`."""


def check_labels(target: Target, labels: Tensor, mask: Tensor | None = None) -> None:
    """Raise unless all labels, or all labels in `mask`, are valid; booleans always are.

    Labels on a GPU are checked for `Classes` only, where an invalid one would abort the process.
    The check synchronizes with the GPU, which makes a small step some 7 % slower.
    """
    if labels.dtype == torch.bool or not (labels.is_cpu or isinstance(target, Classes)):
        return
    wrong = ~target.is_valid(labels)
    invalid = first_invalid(labels, wrong if mask is None else wrong & mask)
    if invalid is not None:
        raise InputError(f"The label {invalid:g} is invalid: {target.valid_labels}.")


@dataclass(frozen=True)
class Binary:
    """Label 0 or 1: F = tanh(output), and f = (F + 1)/2 is the probability of 1 (equation 5).

    With `squash="sigmoid"` the sigmoid of the output is the probability p itself, and ignorance is
    p = `centre`. The published network for MovieLens has a centre of 0.3.
    """

    squash: Literal["tanh", "sigmoid"] = "tanh"
    centre: float = 0.0
    logarithm: Logarithm = "exact"
    """Whether probabilities are exact, clamped to EPSILON from 0 and 1, or shifted by it."""

    def __post_init__(self) -> None:
        require_choice("squash", self.squash, Literal["tanh", "sigmoid"])
        require_choice("logarithm", self.logarithm, Logarithm)
        low, high = self._range
        if not low <= self.centre <= high:
            raise InputError(
                f"The centre of a {self.squash} target must lie between {low:g} and {high:g}, "
                f"not at {self.centre:g}."
            )

    @property
    def n_outputs(self) -> int:
        """One."""
        return 1

    @property
    def max_distance(self) -> float:
        """Distance from the centre to the farther end."""
        low, high = self._range
        return max(high - self.centre, self.centre - low)

    @property
    def valid_labels(self) -> str:
        """0 and 1."""
        return "the labels of two classes are 0 and 1"

    def is_valid(self, labels: Tensor) -> Tensor:
        """Return whether each is 0 or 1."""
        return (labels == 0) | (labels == 1)

    @property
    def _range(self) -> tuple[float, float]:
        return (-1.0, 1.0) if self.squash == "tanh" else (0.0, 1.0)

    def distance(self, outputs: Tensor) -> Tensor:
        """Return |F|, or |p − centre|."""
        return (self._values(outputs) - self.centre).abs()

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return −y log f − (1 − y) log(1 − f)."""
        logits = self._logits(outputs)
        return -self._log(F.logsigmoid(torch.where(labels > 0.5, logits, -logits)))

    def mix(self, outputs: Tensor, weights: Tensor) -> Tensor:
        """Return the logits of 0 and of 1 for the mean F or p."""
        values = self._values(outputs)
        mean = (weights * values).sum(dim=0) / (weights.sum(dim=0) + PRIOR_WEIGHT)
        probability = (mean + 1) / 2 if self.squash == "tanh" else mean
        logit = torch.logit(probability, eps=EPSILON)
        return torch.stack((-logit, logit), dim=1)

    def _values(self, outputs: Tensor) -> Tensor:
        """Return F or p, `[H, R]`."""
        outputs = outputs[:, 0]
        return outputs.tanh() if self.squash == "tanh" else outputs.sigmoid()

    def _logits(self, outputs: Tensor) -> Tensor:
        """Return the logit of f; (tanh(a) + 1)/2 is the sigmoid of 2a."""
        return outputs[:, 0] * (2 if self.squash == "tanh" else 1)

    def _log(self, logarithms: Tensor) -> Tensor:
        """Clamp or shift log probabilities as `logarithm` says."""
        if self.logarithm == "clamped":
            return logarithms.clamp(math.log(EPSILON), math.log1p(-EPSILON))
        if self.logarithm == "shifted":
            shift = torch.full_like(
                logarithms, math.log(EPSILON)
            )  # a fill can be part of a CUDA graph
            return torch.logaddexp(logarithms, shift)
        return logarithms


@dataclass(frozen=True)
class Classes:
    """One of K classes, numbered from 0; p = softmax(outputs)."""

    count: int
    centre: tuple[float, ...] = ()
    """π, the class probabilities of an ignorant expert; uniform if empty."""

    def __post_init__(self) -> None:
        if self.count < 2:
            raise InputError(f"A target needs at least two classes, not {self.count}.")
        if not (
            len(self._centre) == self.count
            and min(self._centre) > 0
            and abs(1 - sum(self._centre)) <= EPSILON
        ):
            raise InputError(
                f"The centre of {self.count} classes must hold {self.count} probabilities above 0 "
                f"that sum to 1, not {self.centre}."
            )

    @property
    def valid_labels(self) -> str:
        """The class numbers."""
        return f"the labels of {self.count} classes are 0 to {self.count - 1}"

    def is_valid(self, labels: Tensor) -> Tensor:
        """Return whether each is the integer of a class."""
        return (labels >= 0) & (labels < self.count) & (labels == labels.long())

    @property
    def n_outputs(self) -> int:
        """One per class."""
        return self.count

    @property
    def max_distance(self) -> float:
        """Distance to certainty of the rarest class, the farthest corner."""
        rarest = 1 - 2 * min(self._centre) + sum(one**2 for one in self._centre)
        return math.sqrt(rarest / self._unit)

    @property
    def _centre(self) -> tuple[float, ...]:
        return self.centre or (1 / self.count,) * self.count

    @property
    def _unit(self) -> float:
        """Denominator of the squared distance.

        It is the variance of the one-hot class, Σ π(1 − π). With an explicit centre it is 2,
        because with two classes both probabilities are off by the same amount.
        """
        return 2.0 if self.centre else 1 - sum(one**2 for one in self._centre)

    def distance(self, outputs: Tensor) -> Tensor:
        """Return √((K Σ p² − 1)/(K − 1)), or √(Σ (p − π)²/2) with an explicit centre.

        For two classes these are |F| and |p − π|.
        """
        offset = outputs.softmax(dim=1) - _column(self._centre, outputs.dtype, outputs.device)
        share = offset.square().sum(dim=1) / self._unit
        return share.clamp_min(torch.finfo(share.dtype).tiny).sqrt()

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return −log p of the true class."""
        place = labels.long().expand(len(outputs), 1, -1)
        return -outputs.log_softmax(dim=1).gather(1, place)[:, 0]

    def mix(self, outputs: Tensor, weights: Tensor) -> Tensor:
        """Return the logits of every class for the mean p."""
        prior = PRIOR_WEIGHT * _column(self._centre, outputs.dtype, outputs.device)
        mixed = (weights[:, None] * outputs.softmax(dim=1)).sum(dim=0) + prior
        mean: Tensor = mixed / (weights.sum(dim=0) + PRIOR_WEIGHT)
        return torch.logit(mean.T, eps=EPSILON)


@dataclass(frozen=True)
class Real:
    """A number, normal about the expert's mean with the expert's variance.

    The outputs are the mean, in units of `std`, and the logit of the share of the variance that the
    expert leaves unexplained.
    """

    mean: float = 0.0
    std: float = 1.0

    def __post_init__(self) -> None:
        if not self.std > 0:
            raise InputError(f"The std of a target must be above 0, not {self.std:g}.")

    @property
    def n_outputs(self) -> int:
        """Mean and variance."""
        return 2

    @property
    def valid_labels(self) -> str:
        """What to do about a label that is not finite."""
        return "impute it or drop its row"

    def is_valid(self, labels: Tensor) -> Tensor:
        """Return whether each is finite."""
        return labels.isfinite()

    @property
    def max_distance(self) -> float:
        """Distance of an output that leaves nothing unexplained."""
        return 1.0

    def distance(self, outputs: Tensor) -> Tensor:
        """Return √(1 − the unexplained share of the variance)."""
        return (1 - self._unexplained(outputs)).clamp_min(torch.finfo(outputs.dtype).tiny).sqrt()

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return ½ (y − μ)²/σ² + log σ, with y and σ in units of `std`."""
        variance = self._unexplained(outputs)
        # Boolean tensors support addition, but not subtraction.
        off = (labels + -self.mean) / self.std - outputs[:, 0]
        return (off.square() / variance + variance.log()) / 2

    def mix(self, outputs: Tensor, weights: Tensor) -> Tensor:
        """Return the mean of the experts' means."""
        mean = (weights * outputs[:, 0]).sum(dim=0) / (weights.sum(dim=0) + PRIOR_WEIGHT)
        return (self.mean + self.std * mean)[:, None]

    def _unexplained(self, outputs: Tensor) -> Tensor:
        return MIN_VARIANCE + (1 - MIN_VARIANCE) * outputs[:, 1].sigmoid()


@cache
@torch.inference_mode(False)
def _column(numbers: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return `[numbers, 1]`, cached on the device: a CUDA graph cannot copy from the host."""
    return torch.tensor(numbers, dtype=dtype, device=device)[:, None]
