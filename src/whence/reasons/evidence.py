"""Which kinds of evidence a recommendation rests on, for models whose experts see parts of it.

The expert with the most weight names the parts it sees. Both halves of the sentence are checked
with the model. "Not on Y" means that the recommendation keeps its probability without Y. "Hardly on
X" means the same of a part that the expert sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Final

import torch
from torch import Tensor

from whence.contract import HasPartNames, HasSelections
from whence.models.base import CaseReader

MAJORITY: Final = 0.5
"""The share of all weight that an expert needs to count as the model's reason."""
NOTICEABLE: Final = 0.05
"""The share of its probability whose loss counts as a change of the recommendation."""


@dataclass(frozen=True)
class Evidence:
    """What the expert with the most weight sees, by the names of the parts."""

    seen: tuple[str, ...]
    unseen: tuple[str, ...]
    weight: float
    """The expert's share of the weight of all experts."""
    probability_lost: float
    """The share of the probability lost without the unseen parts; negative if it gains."""
    lost_without: tuple[float, ...]
    """The share lost without each seen part alone."""
    seeds: int = 1
    """How many of the run's models were asked."""
    agreeing: int = 1
    """How many of them give the same sentence."""

    @property
    def sentence(self) -> str:
        """What to tell the user."""
        if self.seeds == 1:
            return self._by_one_model
        return f"{self._by_one_model}; {self.agreeing} of {self.seeds} models agree"

    @property
    def _by_one_model(self) -> str:
        if self.weight < MAJORITY:
            return "rests on several kinds of evidence; none of them decides it alone"
        if not self.unseen:
            return self._named
        # Unseen parts are hidden together, so the sentence cannot say which of them counts.
        role = "and also" if abs(self.probability_lost) >= NOTICEABLE else "not"
        return f"{self._named}, {role} on {_listed(self.unseen, 'or')}"

    @property
    def _named(self) -> str:
        """What it rests on, and which of these parts it could do without."""
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
def find_evidence(model: CaseReader, batch: Tensor, targets: Tensor) -> list[Evidence]:
    """Return the evidence for each case's target `[B]`; the model offers selections."""
    assert isinstance(model, HasSelections)
    assert isinstance(model, HasPartNames)
    weights, sees = model.selections(batch, targets)
    names = model.part_names(batch)
    chosen = weights.argmax(dim=1)
    seen = sees[torch.arange(len(batch), device=batch.device), chosen]
    shares = weights.amax(dim=1) / weights.sum(dim=1).clamp(min=torch.finfo(weights.dtype).tiny)
    parts = model.parts(batch)
    each = torch.eye(parts.shape[1], dtype=torch.bool, device=batch.device)
    shown = torch.cat((torch.stack((parts, seen), dim=1), parts[:, None] & ~each), dim=1)
    probabilities = model.probabilities(model.score_coalitions(batch, targets, shown))
    lost = 1 - probabilities[:, 1:] / probabilities[:, :1]
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
    models: Sequence[CaseReader], batch: Tensor, targets: Tensor
) -> list[Evidence]:
    """Return what the first model says, and how many of all models agree with it."""
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
