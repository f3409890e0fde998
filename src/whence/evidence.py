"""Which kind of evidence a recommendation rests on, by a model whose experts see parts of it.

The expert most selected says which parts suffice. That the others do not count is only said where
the recommendation keeps its probability without them.
"""

from __future__ import annotations

from dataclasses import dataclass
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

    @property
    def sentence(self) -> str:
        """What to tell the user."""
        if self.weight < MOST:
            return "rests on several kinds of evidence, none of which decides it"
        rests = f"rests on {_listed(self.seen, 'and')}"
        if not self.unseen or abs(self.probability_lost) >= NOTICEABLE:
            return rests
        return f"{rests}, not on {_listed(self.unseen, 'or')}"


@torch.no_grad()
def find_evidence(model: Explainable, batch: Tensor, targets: Tensor) -> list[Evidence]:
    """Of each case's one target `[B]`, by a model that offers selections and names its parts."""
    weights, sees = model.selections(batch, targets)
    names = model.part_names(batch)
    assert names is not None
    chosen = weights.argmax(dim=1)
    seen = sees[torch.arange(len(batch), device=batch.device), chosen]
    shares = weights.amax(dim=1) / weights.sum(dim=1).clamp(min=torch.finfo(weights.dtype).tiny)
    both = torch.stack((model.parts(batch), seen), dim=1)
    whole, alone = model.score_coalitions(batch, targets, both).sigmoid().unbind(dim=1)
    parts = model.parts(batch).tolist()
    return [
        Evidence(
            tuple(name for name, yes in zip(row, mask, strict=True) if yes),
            tuple(
                name for name, yes, part in zip(row, mask, there, strict=True) if part and not yes
            ),
            share,
            lost,
        )
        for row, mask, there, share, lost in zip(
            names, seen.tolist(), parts, shares.tolist(), (1 - alone / whole).tolist(), strict=True
        )
    ]


def _listed(names: tuple[str, ...], last: str) -> str:
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), names[-1])))
