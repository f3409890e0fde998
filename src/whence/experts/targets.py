"""What is predicted: one of two classes as published, and beyond that several, or a real number.

Every expert answers with `outputs` numbers, `[H, outputs, R]`. An answer's distance from knowing
nothing says how sure the expert is: for two classes |F|, whose square is the share of the target's
variance (of labels −1 and 1 that are equally frequent) that the answer explains. For several
classes and for real numbers the distance is the root of that same share. About a centre that is
given, the distance is in probabilities, as published: |p − centre| for two classes.
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


def first_wrong(values: Tensor, wrong: Tensor) -> float | None:
    """The first value where something is wrong; inside `torch.vmap` none can be looked at."""
    if torch._C._are_functorch_transforms_active() or not wrong.any():
        return None
    return float(values[wrong][0])


# ...


EPSILON = 1e-6
"""How near to 0 and 1 a probability may come, or what is added to it, in the published code."""
NOTHING = 1e-9
"""The weight of an answer that knows nothing, beside those of the experts in a mixture."""
LEAST_VARIANCE = 1e-4
"""The least share of a real number's variance that an expert may leave open."""

Logarithm = Literal["exact", "squeezed", "shifted"]


class Target(Protocol):
    """How answers are read."""

    @property
    def outputs(self) -> int:
        """Numbers an expert answers with."""

    @property
    def reach(self) -> float:
        """The largest distance an answer can have."""

    @property
    def truths(self) -> str:
        """What can be true, in words."""

    def can_be(self, truth: Tensor) -> Tensor:
        """Whether each of these can be true, of any shape."""

    def distance(self, answers: Tensor) -> Tensor:
        """`[H, R]`: how far each answer is from knowing nothing."""

    def loss(self, answers: Tensor, truth: Tensor) -> Tensor:
        """`[H, R]`: minus the logarithm of the likelihood of the truth `[R]`."""

    def mixture(self, answers: Tensor, weights: Tensor) -> Tensor:
        """`[R, t]`: the score of every target, of answers mixed by weights `[H, R]`."""


def refuse_others(target: Target, truth: Tensor, there: Tensor | None = None) -> None:
    """Raise unless all truths, or all that are `there`, can be true; yes and no always can.

    To look at what lies on a GPU is to wait for it, which makes a small step some 7 % longer.
    So that is done for classes alone: one that there is not would end the process.
    """
    if truth.dtype == torch.bool or not (truth.is_cpu or isinstance(target, Classes)):
        return
    wrong = ~target.can_be(truth)
    told = first_wrong(truth, wrong if there is None else wrong & there)
    if told is not None:
        raise InputError(f"There is {told:g} among the truths; {target.truths}.")


@dataclass(frozen=True)
class Binary:
    """0 or 1. F = tanh(answer) with f = (F + 1)/2 the probability of 1 (equation 5).

    With `squash="sigmoid"` the answer's sigmoid is the probability p itself, and knowing nothing is
    p = `centre`, as in the published network for MovieLens, where it is 0.3.
    """

    squash: Literal["tanh", "sigmoid"] = "tanh"
    centre: float = 0.0
    logarithm: Logarithm = "exact"
    """Of probabilities as they are, kept EPSILON from 0 and 1, or with EPSILON added."""

    def __post_init__(self) -> None:
        require_choice("squash", self.squash, Literal["tanh", "sigmoid"])
        require_choice("logarithm", self.logarithm, Logarithm)
        low, high = self._range
        if not low <= self.centre <= high:
            raise InputError(
                f"A centre lies between {low:g} and {high:g} for {self.squash}, not at "
                f"{self.centre:g}."
            )

    @property
    def outputs(self) -> int:
        """One."""
        return 1

    @property
    def reach(self) -> float:
        """From the centre to the farther end."""
        low, high = self._range
        return max(high - self.centre, self.centre - low)

    @property
    def truths(self) -> str:
        """The two."""
        return "two classes have the numbers 0 and 1"

    def can_be(self, truth: Tensor) -> Tensor:
        """0 or 1."""
        return (truth == 0) | (truth == 1)

    @property
    def _range(self) -> tuple[float, float]:
        return (-1.0, 1.0) if self.squash == "tanh" else (0.0, 1.0)

    def distance(self, answers: Tensor) -> Tensor:
        """|F|, or |p − centre|."""
        return (self._values(answers) - self.centre).abs()

    def loss(self, answers: Tensor, truth: Tensor) -> Tensor:
        """−y log f − (1 − y) log(1 − f)."""
        logits = self._logits(answers)
        return -self._log(F.logsigmoid(torch.where(truth > 0.5, logits, -logits)))

    def mixture(self, answers: Tensor, weights: Tensor) -> Tensor:
        """The logits of 0 and of 1, of the mean F or p."""
        values = self._values(answers)
        mean = (weights * values).sum(dim=0) / (weights.sum(dim=0) + NOTHING)
        chance = (mean + 1) / 2 if self.squash == "tanh" else mean
        logit = torch.logit(chance, eps=EPSILON)
        return torch.stack((-logit, logit), dim=1)

    def _values(self, answers: Tensor) -> Tensor:
        """F or p, `[H, R]`."""
        answers = answers[:, 0]
        return answers.tanh() if self.squash == "tanh" else answers.sigmoid()

    def _logits(self, answers: Tensor) -> Tensor:
        """Of f: (tanh(a) + 1)/2 is the sigmoid of 2a."""
        return answers[:, 0] * (2 if self.squash == "tanh" else 1)

    def _log(self, logarithms: Tensor) -> Tensor:
        """What is taken for the logarithm of a probability."""
        if self.logarithm == "squeezed":
            return logarithms.clamp(math.log(EPSILON), math.log1p(-EPSILON))
        if self.logarithm == "shifted":
            shift = torch.full_like(logarithms, math.log(EPSILON))  # a fill, which can be recorded
            return torch.logaddexp(logarithms, shift)
        return logarithms


@dataclass(frozen=True)
class Classes:
    """One of K classes, numbered from 0; p = softmax(answers)."""

    count: int
    centre: tuple[float, ...] = ()
    """π, the probability of every class by who knows nothing; the same of all if none are given."""

    def __post_init__(self) -> None:
        if self.count < 2:
            raise InputError(f"There are at least two classes, not {self.count}.")
        if not (
            len(self._centre) == self.count
            and min(self._centre) > 0
            and abs(1 - sum(self._centre)) <= EPSILON
        ):
            raise InputError(
                f"A centre of {self.count} classes has as many probabilities above 0 that sum to "
                f"1, not {self.centre}."
            )

    @property
    def truths(self) -> str:
        """All classes."""
        return f"{self.count} classes have the numbers 0 to {self.count - 1}"

    def can_be(self, truth: Tensor) -> Tensor:
        """A whole number, of a class."""
        return (truth >= 0) & (truth < self.count) & (truth == truth.long())

    @property
    def outputs(self) -> int:
        """One a class."""
        return self.count

    @property
    def reach(self) -> float:
        """Of the rarest class for certain, the corner that lies farthest."""
        rarest = 1 - 2 * min(self._centre) + sum(one**2 for one in self._centre)
        return math.sqrt(rarest / self._unit)

    @property
    def _centre(self) -> tuple[float, ...]:
        return self.centre or (1 / self.count,) * self.count

    @property
    def _unit(self) -> float:
        """What squares are divided by.

        The variance of the class as K numbers 0 or 1 together, Σ π(1 − π), or 2 about a centre
        that is given: with two classes, both probabilities are off by the same.
        """
        return 2.0 if self.centre else 1 - sum(one**2 for one in self._centre)

    def distance(self, answers: Tensor) -> Tensor:
        """√((K Σ p² − 1)/(K − 1)), of two classes |F|; or √(Σ (p − π)²/2), of two |p − π|."""
        away = answers.softmax(dim=1) - _column(self._centre, answers.dtype, answers.device)
        share = away.square().sum(dim=1) / self._unit
        return share.clamp_min(torch.finfo(share.dtype).tiny).sqrt()

    def loss(self, answers: Tensor, truth: Tensor) -> Tensor:
        """−log p of the true class."""
        place = truth.long().expand(len(answers), 1, -1)
        return -answers.log_softmax(dim=1).gather(1, place)[:, 0]

    def mixture(self, answers: Tensor, weights: Tensor) -> Tensor:
        """The logits of every class, of the mean p."""
        nothing = NOTHING * _column(self._centre, answers.dtype, answers.device)
        mixed = (weights[:, None] * answers.softmax(dim=1)).sum(dim=0) + nothing
        mean: Tensor = mixed / (weights.sum(dim=0) + NOTHING)
        return torch.logit(mean.T, eps=EPSILON)


@dataclass(frozen=True)
class Real:
    """A number, normal about the expert's mean with a variance of its own.

    The answers are the mean, in units of the target's spread, and the logit of the share of the
    target's variance that is left open.
    """

    mean: float = 0.0
    spread: float = 1.0

    def __post_init__(self) -> None:
        if not self.spread > 0:
            raise InputError(f"A target's spread is above 0, not {self.spread:g}.")

    @property
    def outputs(self) -> int:
        """Mean and variance."""
        return 2

    @property
    def truths(self) -> str:
        """Any number."""
        return "fill it in or leave it out"

    def can_be(self, truth: Tensor) -> Tensor:
        """Finite."""
        return truth.isfinite()

    @property
    def reach(self) -> float:
        """Of an answer that leaves nothing open."""
        return 1.0

    def distance(self, answers: Tensor) -> Tensor:
        """√(1 − the share of the variance left open)."""
        return (1 - self._left_open(answers)).clamp_min(torch.finfo(answers.dtype).tiny).sqrt()

    def loss(self, answers: Tensor, truth: Tensor) -> Tensor:
        """½ (y − μ)²/σ² + log σ, for y and σ in units of the spread."""
        variance = self._left_open(answers)
        # No tensor of yes and no can be subtracted from, but all can be added to.
        off = (truth + -self.mean) / self.spread - answers[:, 0]
        return (off.square() / variance + variance.log()) / 2

    def mixture(self, answers: Tensor, weights: Tensor) -> Tensor:
        """The mean of the experts' means."""
        mean = (weights * answers[:, 0]).sum(dim=0) / (weights.sum(dim=0) + NOTHING)
        return (self.mean + self.spread * mean)[:, None]

    def _left_open(self, answers: Tensor) -> Tensor:
        return LEAST_VARIANCE + (1 - LEAST_VARIANCE) * answers[:, 1].sigmoid()


@cache
@torch.inference_mode(False)
def _column(numbers: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """`[numbers, 1]`, kept where it is needed: a GPU that records a step can copy nothing to it."""
    return torch.tensor(numbers, dtype=dtype, device=device)[:, None]
