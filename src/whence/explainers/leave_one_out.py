"""Leave one out: what the score loses when one part is taken away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from whence.config import require_choice
from whence.contract import ALL
from whence.explainers.base import Attribution, Inquiry
from whence.explainers.game import Game, play
from whence.memory import cases_at_once, inputs_at_once, row_slices

Unit = Literal["logit", "probability"]


@dataclass(frozen=True)
class LeaveOneOut:
    """f(N) − f(N∖{j}), with f the target's logit, or its probability among all targets."""

    unit: Unit = "logit"

    method: ClassVar[str] = "leave-one-out"
    needs: ClassVar[tuple[str, ...]] = ("score",)
    signed: ClassVar[bool] = True
    cost: ClassVar[str] = "n"

    def __post_init__(self) -> None:
        require_choice("unit", self.unit, Unit)

    @property
    def words(self) -> str:
        """With its unit."""
        what = "score" if self.unit == "logit" else self.unit  # a rating has no logit
        return f"What the {what} loses when {{a_part}} is hidden; below zero speaks against."

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """All removals of all cases in one sweep."""
        rule = _in_logits if self.unit == "logit" else _in_probability
        return play(inquiry, rule, values_each=inquiry.parts.shape[1])


def _in_logits(game: Game) -> Attribution:
    """v(N) − v(N∖{j})."""
    return Attribution(game.full[:, None] - game(_without_each(game)), evaluations=game.players)


def _in_probability(game: Game) -> Attribution:
    """The same of the softmax among all targets."""
    whole = torch.ones(1, game.players, dtype=torch.bool)
    chances = probability_of_coalitions(game, torch.cat((whole, _without_each(game))))
    return Attribution(chances[:, :1] - chances[:, 1:], evaluations=game.players)


def _without_each(game: Game) -> Tensor:
    return ~torch.eye(game.players, dtype=torch.bool)


def probability_of_coalitions(game: Game, coalitions: Tensor) -> Tensor:
    """`[B, c]`: the softmax of the target among all targets, under each coalition."""
    model, batch, targets = game.inquiry.model, game.inquiry.batch, game.inquiry.targets
    present, cases, count = game.present(coalitions), len(batch), len(coalitions)
    row = torch.arange(cases * count, device=batch.device)
    target_count = model.score(batch[:1], ALL).shape[1]
    values = []
    fitting = inputs_at_once(batch.shape[1], game.inquiry.memory)
    for rows in row_slices(cases * count, min(fitting, cases_at_once(target_count, batch.is_cuda))):
        case, coalition = row[rows] // count, row[rows] % count
        logits = model.score(batch[case], ALL, present=present[coalition])
        values.append(logits.softmax(dim=1).gather(1, targets[case, None]))
    return torch.cat(values).view(cases, count).double()
