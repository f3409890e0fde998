"""Finds the reasons of recommendations: figures, their probabilities, and what is said.

All models of a run are asked. Each is a recommender of its own, with the network of one seed, and
the mean of their scores is what recommends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import torch
from torch import Tensor

from whence.contract import DROPPED
from whence.errors import RunError
from whence.memory import find_in_slices, row_slices
from whence.models.base import CaseReader
from whence.models.dropping import require_removal
from whence.reasons.calibrator import Beliefs, Calibrator
from whence.reasons.features import features_of
from whence.reasons.figures import Figures, find_figures
from whence.reasons.groups import ItemGroups
from whence.reasons.judgement import SURE, Judgement, judge
from whence.reasons.shown import USERS_AT_ONCE, Shown
from whence.reasons.singles import SingleItems

FEW: Final = 10
"""With more targets of each user, fewer users are looked at together."""


class Found(NamedTuple):
    """What was found for some users."""

    figures: Figures
    beliefs: Beliefs
    judgement: Judgement


@dataclass(frozen=True, eq=False)
class Reasoner:
    """What finds reasons for the recommendations of some models together."""

    models: Sequence[CaseReader]
    """One for each seed; the mean of their scores recommends."""
    slots: int
    """How many of the newest items they read."""
    item_count: int
    groups: ItemGroups | None
    calibrator: Calibrator
    calibrator_name: str
    removal: str = DROPPED

    def __post_init__(self) -> None:
        require_removal(self.models[0], self.removal)

    @cached_property
    def singles(self) -> list[SingleItems]:
        """Return what each model expects after single items."""
        return [SingleItems.of(one, self.item_count) for one in self.models]

    def find(
        self,
        histories: Tensor,
        targets: Tensor,
        seen: Tensor,
        *,
        sure: float = SURE,
        low: Tensor | None = None,
    ) -> Found:
        """Return what targets `[U, k]` rest on, for histories `[U, w]` and all items seen `[U, m]`.

        `low` `[U, w]` marks events that the user rated low.
        """
        if len(histories) * self.slots >= self.item_count and self.singles[0].fit_into_memory:
            for one in self.singles:  # for so many users, asking once for all items is less work
                one.lift  # noqa: B018
        shown = Shown(self.models, histories, targets, seen, self.slots, self.removal)
        device = histories.device.type
        at_once = max(1, USERS_AT_ONCE[device] * FEW // max(FEW, targets.shape[1]))
        found = find_in_slices(
            lambda some: self._some(shown[some], some, sure, low),
            row_slices(len(histories), at_once),
            self.slots * self.item_count,
            device == "cuda",
        )
        return Found(
            Figures.joined([one.figures for one in found]),
            Beliefs(*(torch.cat(one) for one in zip(*(f.beliefs for f in found), strict=True))),
            Judgement.joined([one.judgement for one in found]),
        )

    def _some(self, shown: Shown, some: slice, sure: float, low: Tensor | None) -> Found:
        """Find the reasons of some users, who are at these places."""
        figures = find_figures(shown.trimmed(), self.singles, self.groups)
        features = features_of(figures, shown.targets)
        if features.names != self.calibrator.names:
            raise RunError(
                f"The calibrator ({self.calibrator_name}) was learned with other figures than "
                "this version of Whence computes. Train the run again."
            )
        beliefs = self.calibrator.believe(features)
        slots = figures.candidates.shape[1]
        rated_low = None if low is None else low[some, -slots:]
        return Found(figures, beliefs, judge(beliefs, figures, sure, rated_low))
