"""A reason in words, checked before it is said.

"Because you watched X" is only said when taking X away makes the recommendation really lose: its
score falls and, among all items, its probability falls by a noticeable share. Where no single item
passes, Whence does not pretend.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from whence.contract import ALL, Explainable, row_slices
from whence.ranking import cases_at_once

NOTICEABLE: Final = 0.05
"""A share of its probability that a recommendation must lose without the item."""
SECOND: Final = 0.5
"""A second item is named when it weighs at least this much of the first."""


@dataclass(frozen=True)
class Support:
    """One part of the history, and what happens to the recommendation without it."""

    slot: int
    score_lost: float
    probability_lost: float
    """As a share of the probability with everything present."""
    rank_before: int
    """From 1, among all items."""
    rank_without: int


@dataclass(frozen=True)
class Reason:
    """The parts that pass the checks, strongest first; none when Whence abstains."""

    supports: tuple[Support, ...]
    labels: tuple[str, ...]
    verb: str

    @property
    def sentence(self) -> str:
        """What to tell the user."""
        if not self.supports:
            return "fits your history as a whole; no single item decides it"
        return f"because you {self.verb} {' and '.join(self.labels)}"

    def as_dict(self) -> dict[str, Any]:
        """Plain types only, with the figures behind the sentence."""
        checks = [
            {
                "item": label,
                "score_lost": support.score_lost,
                "probability_lost": support.probability_lost,
                "rank_before": support.rank_before,
                "rank_without": support.rank_without,
            }
            for label, support in zip(self.labels, self.supports, strict=True)
        ]
        return {"sentence": self.sentence, "checks": checks}


@torch.no_grad()
def find_reasons(
    model: Explainable, history: Tensor, targets: Tensor, labels: list[str], verb: str
) -> list[Reason]:
    """For one history `[1, n]` and each target `[k]`, the parts that really support it.

    Every removal serves all targets, so the model sees one input a part, not one a part and target.
    """
    parts = model.parts(history)[0]
    slots = parts.nonzero()[:, 0]
    present = parts.repeat(1 + len(slots), 1)
    present[torch.arange(1, 1 + len(slots)), slots] = False
    found = _consequences(model, history, targets, present)
    reasons = []
    for place in range(len(targets)):
        supports = _strongest(
            [
                Support(
                    slot=int(slot),
                    score_lost=float(found.logit[0, place] - found.logit[row, place]),
                    # From logarithms, so that a tiny probability still loses a share.
                    probability_lost=-math.expm1(
                        found.log_chance[row, place] - found.log_chance[0, place]
                    ),
                    rank_before=int(found.rank[0, place]),
                    rank_without=int(found.rank[row, place]),
                )
                for row, slot in enumerate(slots, start=1)
            ]
        )
        named = tuple(labels[support.slot] for support in supports)
        reasons.append(Reason(supports, named, verb))
    return reasons


def _strongest(candidates: list[Support]) -> tuple[Support, ...]:
    """The one or two that pass, strongest first; of equals the newer."""
    passed = [
        support
        for support in reversed(candidates)
        if support.score_lost > 0 and support.probability_lost >= NOTICEABLE
    ]
    passed.sort(key=lambda support: -support.probability_lost)
    least = SECOND * passed[0].probability_lost if passed else 0.0
    return tuple(support for support in passed[:2] if support.probability_lost >= least)


@dataclass(frozen=True)
class _Consequences:
    """`[rows, k]` each: for every set of present parts and every target."""

    logit: Tensor
    log_chance: Tensor
    rank: Tensor
    """From 1, among all items."""


def _consequences(
    model: Explainable, history: Tensor, targets: Tensor, present: Tensor
) -> _Consequences:
    """What becomes of the targets under each row of `present`, some rows at a time."""
    item_count = model.score(history, ALL).shape[1]
    pieces: list[tuple[Tensor, Tensor, Tensor]] = []
    for rows in row_slices(len(present), cases_at_once(item_count)):
        batch = history.expand(len(present[rows]), -1)
        scores = model.score(batch, ALL, present=present[rows])
        own = scores[:, targets]
        ranks = [1 + (scores > one[:, None]).sum(dim=1) for one in own.unbind(dim=1)]
        pieces.append((own, scores.log_softmax(dim=1)[:, targets], torch.stack(ranks, dim=1)))
    return _Consequences(*(torch.cat(column).cpu() for column in zip(*pieces, strict=True)))
