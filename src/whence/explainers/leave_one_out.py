"""Leave one out: what the score loses when one part is taken away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from whence.contract import ALL, Explainable
from whence.explainers.base import Attribution
from whence.memory import cases_at_once, row_slices


@dataclass(frozen=True)
class LeaveOneOut:
    """f(N) − f(N∖{j}), with f the target's logit, or its probability among all targets."""

    unit: Literal["logit", "probability"] = "logit"

    method: ClassVar[str] = "leave-one-out"
    needs: ClassVar[tuple[str, ...]] = ("score",)
    signed: ClassVar[bool] = True

    @property
    def words(self) -> str:
        """With its unit."""
        return f"What the {self.unit} loses when an item is hidden; below zero speaks against."

    def __call__(
        self, model: Explainable, batch: Tensor, targets: Tensor, seed: int
    ) -> Attribution:
        """All removals of all cases in one sweep."""
        parts = model.parts(batch)
        slots = parts.shape[1]
        alone = torch.eye(slots, dtype=torch.bool, device=parts.device)
        coalitions = torch.cat((parts[:, None], parts[:, None] & ~alone), dim=1)  # N, then N∖{j}
        if self.unit == "logit":
            values = model.score_coalitions(batch, targets, coalitions)
        else:
            values = probability_of_coalitions(model, batch, targets, coalitions)
        return Attribution(values[:, :1] - values[:, 1:], evaluations=slots)


def probability_of_coalitions(
    model: Explainable, batch: Tensor, targets: Tensor, coalitions: Tensor
) -> Tensor:
    """`[B, c]`: the softmax of the target among all targets, under each coalition."""
    cases, count, slots = coalitions.shape
    present = coalitions.reshape(cases * count, slots)
    case = torch.arange(cases, device=batch.device).repeat_interleave(count)
    target_count = model.score(batch[:1], ALL).shape[1]
    values = []
    for rows in row_slices(cases * count, cases_at_once(target_count)):
        logits = model.score(batch[case[rows]], ALL, present=present[rows])
        values.append(logits.softmax(dim=1).gather(1, targets[case[rows], None]))
    return torch.cat(values).reshape(cases, count)
