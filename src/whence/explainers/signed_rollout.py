"""Signed rollout: rollout gives the size, another method gives the sign.

Baumhauer (2021, section 5.3) proposes it as future work: a reason should name what has a high
rollout and argues for the recommendation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from torch import Tensor

from whence.config import require_choice
from whence.explainers.base import EXPLAINERS, Attribution, Explainer, Request
from whence.explainers.fading import Fading
from whence.explainers.gradients import GradientInput
from whence.explainers.leave_one_out import LeaveOneOut
from whence.explainers.rollout import Rollout

Sign = Literal["fading", "leave-one-out", "gradient-input", "both"]

SIGNS: Final[dict[str, Explainer]] = {
    "fading": Fading(),
    "leave-one-out": LeaveOneOut(),
    "gradient-input": GradientInput(),
}


@dataclass(frozen=True)
class SignedRollout(Explainer):
    """Rollout times the sign of another method's score; 0 where that score is 0."""

    sign: Sign = "fading"
    """Which method gives the sign; "both" multiplies rollout by the leave-one-out score."""

    method = "signed-rollout"
    signed = True

    def __post_init__(self) -> None:
        require_choice("sign", self.sign, Sign)

    @property
    def needs(self) -> tuple[str, ...]:
        """Return those of both methods."""
        return (*Rollout.needs, *self._other.needs)

    @property
    def cost(self) -> str:
        """Return that of both methods."""
        return f"{Rollout.cost} + {self._other.cost}"

    @property
    def summary(self) -> str:
        """Say where the sign comes from."""
        how = "times what is lost without it" if self.sign == "both" else f"signed by {self.sign}"
        return f"How much of each {{part}} reaches the answer through all blocks, {how}."

    @property
    def _other(self) -> Explainer:
        return SIGNS["leave-one-out" if self.sign == "both" else self.sign]

    def __call__(self, request: Request) -> Attribution:
        """Ask rollout and the other method once each."""
        size, side = Rollout()(request), self._other(request)
        slots = request.parts.shape[1]
        reach, other = size.scores[:, :slots], side.scores[:, :slots]
        scores: Tensor = reach * (other if self.sign == "both" else other.sign())
        return Attribution(scores, evaluations=size.evaluations + side.evaluations)


EXPLAINERS.add("signed-rollout", SignedRollout(), tags=("usual", "audit"), place=22)
