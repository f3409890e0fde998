"""Which kind of evidence a recommendation rests on, by a model whose experts see parts of it.

The expert most selected says which parts suffice. Both halves of what is then said are held against
the model: that the others do not count is only said where the recommendation keeps its probability
without them, and otherwise that they do; and of a part that is named it is told where it does so
without that one alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Final

import torch
from torch import Tensor

from whence.contract import Explainable

MOST: Final = 0.5
"""The share of all weight that an expert must have to speak for the model."""
NOTICEABLE: Final = 0.05
"""A share of its probability; who says that parts do not count may not lose as much with them."""


@dataclass(frozen=True)
class Evidence:
    """What the expert most selected sees, by the names of the parts."""

    seen: tuple[str, ...]
    unseen: tuple[str, ...]
    weight: float
    """Its share of the weight of all experts."""
    probability_lost: float
    """As a share of the probability: without what it does not see; below 0 is gained."""
    lost_without: tuple[float, ...]
    """The same without each part that it sees, and that part alone."""
    seeds: int = 1
    """How many seeds' models were asked."""
    agreeing: int = 1
    """How many of them say the same."""

    @property
    def sentence(self) -> str:
        """What to tell the user."""
        if self.seeds == 1:
            return self._said
        return f"{self._said}; the same in {self.agreeing} of {self.seeds} seeds"

    @property
    def _said(self) -> str:
        """What it comes to, by one model."""
        if self.weight < MOST:
            return "rests on several kinds of evidence, none of which decides it"
        if not self.unseen:
            return self._named
        # Unseen parts are hidden together, so that of several it is not told which one counts.
        does = "and also" if abs(self.probability_lost) >= NOTICEABLE else "not"
        return f"{self._named}, {does} on {_listed(self.unseen, 'or')}"

    @property
    def _named(self) -> str:
        """What it rests on, and what of it could as well be absent."""
        costs = list(zip(self.seen, self.lost_without, strict=True))
        needed = [name for name, lost in costs if abs(lost) >= NOTICEABLE]
        spare = [name for name, lost in costs if abs(lost) < NOTICEABLE]
        if not needed:
            each = "that" if len(spare) == 1 else "any one of these"
            unchanged = f"though without {each} the score hardly changes"
            return f"rests on {_listed(spare, 'and')} ({unchanged})"
        rests = f"rests on {_listed(needed, 'and')}"
        return f"{rests}, hardly on {_listed(spare, 'or')}" if spare else rests


@torch.no_grad()
def find_evidence(model: Explainable, batch: Tensor, targets: Tensor) -> list[Evidence]:
    """Of each case's one target `[B]`, by a model that offers selections and names its parts."""
    weights, sees = model.selections(batch, targets)
    names = model.part_names(batch)
    assert names is not None
    chosen = weights.argmax(dim=1)
    seen = sees[torch.arange(len(batch), device=batch.device), chosen]
    shares = weights.amax(dim=1) / weights.sum(dim=1).clamp(min=torch.finfo(weights.dtype).tiny)
    parts = model.parts(batch)
    each = torch.eye(parts.shape[1], dtype=torch.bool, device=batch.device)
    shown = torch.cat((torch.stack((parts, seen), dim=1), parts[:, None] & ~each), dim=1)
    chances = model.chances(model.score_coalitions(batch, targets, shown))
    lost = 1 - chances[:, 1:] / chances[:, :1]
    return [
        Evidence(
            tuple(compress(row, mask)),
            tuple(compress(row, hidden)),
            share,
            without_unseen,
            tuple(compress(without_each, mask)),
        )
        for row, mask, hidden, share, (without_unseen, *without_each) in zip(
            names,
            seen.tolist(),
            (parts & ~seen).tolist(),
            shares.tolist(),
            lost.tolist(),
            strict=True,
        )
    ]


def evidence_by_seeds(
    models: Sequence[Explainable], batch: Tensor, targets: Tensor
) -> list[Evidence]:
    """What the first of the models says, and how many of them say the same."""
    own, *others = (find_evidence(model, batch, targets) for model in models)
    return [
        replace(
            one,
            seeds=len(models),
            agreeing=1 + sum(other[case].sentence == one.sentence for other in others),
        )
        for case, one in enumerate(own)
    ]


def _listed(names: Sequence[str], last: str) -> str:
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), names[-1])))
