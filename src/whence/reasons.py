"""A reason in words, checked before it is said.

"Because you watched X" is only said when taking X away makes the recommendation really lose: its
score falls and, among all items, its probability falls by a noticeable share. Where no single item
passes, Whence does not pretend.
"""

from __future__ import annotations

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
    logits, chances, ranks = _consequences(model, history, targets, present)
    score_lost = logits[:1] - logits[1:]
    chance_lost = 1 - chances[1:] / chances[:1]
    reasons = []
    for place in range(len(targets)):
        passed = (score_lost[:, place] > 0) & (chance_lost[:, place] >= NOTICEABLE)
        order = chance_lost[:, place].argsort(descending=True, stable=True)
        best = [int(row) for row in order if passed[row]][:2]
        if len(best) == 2 and chance_lost[best[1], place] < SECOND * chance_lost[best[0], place]:
            best = best[:1]
        supports = tuple(
            Support(
                slot=int(slots[row]),
                score_lost=float(score_lost[row, place]),
                probability_lost=float(chance_lost[row, place]),
                rank_before=int(ranks[0, place]),
                rank_without=int(ranks[1 + row, place]),
            )
            for row in best
        )
        named = tuple(labels[support.slot] for support in supports)
        reasons.append(Reason(supports, named, verb))
    return reasons


def _consequences(
    model: Explainable, history: Tensor, targets: Tensor, present: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """`[rows, k]` each: the targets' logits, probabilities and ranks from 1 among all items."""
    item_count = model.score(history, ALL).shape[1]
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for rows in row_slices(len(present), cases_at_once(item_count)):
        batch = history.expand(len(present[rows]), -1)
        scores = model.score(batch, ALL, present=present[rows])
        own = scores[:, targets]
        ranks = torch.stack(
            [1 + (scores > own[:, [place]]).sum(dim=1) for place in range(len(targets))], dim=1
        )
        found.append((own, scores.softmax(dim=1)[:, targets], ranks))
    logits, chances, ranks = (torch.cat(pieces).cpu() for pieces in zip(*found, strict=True))
    return logits, chances, ranks
