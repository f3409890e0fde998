"""Leave one out: what the score loses when one part is removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from whence.config import require_choice
from whence.contract import ALL
from whence.explainers.base import EXPLAINERS, Attribution, Explainer, Request
from whence.explainers.game import Game, play
from whence.memory import cases_at_once, inputs_at_once, row_slices

Unit = Literal["logit", "probability"]


@dataclass(frozen=True)
class LeaveOneOut(Explainer):
    """f(N) − f(N∖{j}), with f the target's logit, or its probability among all targets."""

    unit: Unit = "logit"

    method = "leave-one-out"
    needs = ("score",)
    signed = True
    cost = "n"

    def __post_init__(self) -> None:
        require_choice("unit", self.unit, Unit)

    @property
    def summary(self) -> str:
        """Name the unit."""
        what = "score" if self.unit == "logit" else self.unit  # a rating has no logit
        return (
            f"What the {what} loses when {{a_part}} is removed; a negative score argues against "
            "the target."
        )

    def __call__(self, request: Request) -> Attribution:
        """Score all removals of all cases in one sweep."""
        rule = _logit_lost if self.unit == "logit" else _probability_lost
        return play(request, rule, values_each=request.parts.shape[1])


def _logit_lost(game: Game) -> Attribution:
    """Return v(N) − v(N∖{j})."""
    return Attribution(game.full[:, None] - game(_without_each(game)), evaluations=game.players)


def _probability_lost(game: Game) -> Attribution:
    """Return the same difference of the softmax over all targets."""
    whole = torch.ones(1, game.players, dtype=torch.bool)
    found = probability_of_coalitions(game, torch.cat((whole, _without_each(game))))
    return Attribution(found[:, :1] - found[:, 1:], evaluations=game.players)


def _without_each(game: Game) -> Tensor:
    return ~torch.eye(game.players, dtype=torch.bool)


def probability_of_coalitions(game: Game, coalitions: Tensor) -> Tensor:
    """Return `[B, c]`: the softmax of the target over all targets, under each coalition."""
    model, batch, targets = game.request.model, game.request.batch, game.request.targets
    present, cases, count = game.present(coalitions), len(batch), len(coalitions)
    row = torch.arange(cases * count, device=batch.device)
    target_count = model.score(batch[:1], ALL).shape[1]
    values = []
    fitting = inputs_at_once(batch.shape[1], game.request.memory)
    for rows in row_slices(cases * count, min(fitting, cases_at_once(target_count, batch.is_cuda))):
        case, coalition = row[rows] // count, row[rows] % count
        logits = model.score(batch[case], ALL, present=present[coalition])
        values.append(logits.softmax(dim=1).gather(1, targets[case, None]))
    return torch.cat(values).view(cases, count).double()


EXPLAINERS.add(
    "leave-one-out",
    LeaveOneOut(),
    aliases=("feature-ablation", "occlusion"),
    tags=("usual", "audit"),
    place=40,
)
EXPLAINERS.add("leave-one-out-probability", LeaveOneOut(unit="probability"), place=41)
