"""Signed rollout: rollout says how much, another method says for or against.

Baumhauer (2021, section 5.3) leaves it to the future: a reason should name what is high in rollout
and speaks for the recommendation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from torch import Tensor

from whence.config import require_choice
from whence.explainers.base import Attribution, Explainer, Inquiry
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
class SignedRollout:
    """Rollout times the sign of another method's importance; 0 where that takes no side.

    "both" is the product of rollout and leave-one-out: high where both are high.
    """

    sign: Sign = "fading"

    method: ClassVar[str] = "signed-rollout"
    signed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_choice("sign", self.sign, Sign)

    @property
    def needs(self) -> tuple[str, ...]:
        """Those of both methods."""
        return (*Rollout.needs, *self._side.needs)

    @property
    def cost(self) -> str:
        """That of both methods."""
        return f"{Rollout.cost} + {self._side.cost}"

    @property
    def words(self) -> str:
        """With where the sign is from."""
        how = "times what is lost without it" if self.sign == "both" else f"signed by {self.sign}"
        return f"How much of each {{part}} reaches the answer through all blocks, {how}."

    @property
    def _side(self) -> Explainer:
        return SIGNS["leave-one-out" if self.sign == "both" else self.sign]

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """Rollout and the other method, once each."""
        size, side = Rollout()(inquiry), self._side(inquiry)
        slots = inquiry.parts.shape[1]
        reach, other = size.scores[:, :slots], side.scores[:, :slots]
        scores: Tensor = reach * (other if self.sign == "both" else other.sign())
        return Attribution(scores, evaluations=size.evaluations + side.evaluations)
