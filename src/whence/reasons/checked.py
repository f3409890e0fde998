"""A reason in words, checked before it is said.

"Because you watched X" is only said when, for the same history without X, the recommendation
really loses: its score falls and, among all items, its probability falls by a noticeable share.
"Without X" is meant as said: X is left out wherever it stands, older items move up, and the model
is asked again. Where no single item passes, Whence does not pretend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.contract import ALL, Explainable, offers
from whence.data.catalog import Catalog
from whence.data.histories import histories_without, one_history
from whence.memory import cases_at_once, row_slices
from whence.ranking import device_of
from whence.reasons.evidence import Evidence, evidence_by_seeds
from whence.reasons.nearby import Nearby

NOTICEABLE: Final = 0.05
"""A share of its probability that a recommendation must lose without the item."""
SECOND: Final = 0.5
"""A second item is named when it weighs at least this much of the first."""


@dataclass(frozen=True)
class Support:
    """One item of the history, and what happens to the recommendation without it."""

    item: Any
    """The raw id."""
    label: str
    score_lost: float
    probability_lost: float
    """As a share of the probability with the whole history."""
    rank_before: int
    """From 1, among the items that are not in the history."""
    rank_without: int


@dataclass(frozen=True)
class Reason:
    """The items that pass the checks, strongest first; none when Whence abstains."""

    supports: tuple[Support, ...]
    verb: str
    rank: int
    """Of the recommendation, from 1, among the items that are not in the history."""
    considered: tuple[Support, ...]
    """Every item of the history the model reads, newest first, whether it passes or not."""
    reads_history: bool = True
    """Whether the model does; one that knows users by their numbers has no item to name."""
    evidence: Evidence | None = None
    """Of a model that reads no history, and has experts: what they rest on."""
    nearby: Nearby | None = None
    """Of one that reads no history, and has vectors of users: who else chose it."""

    @property
    def sentence(self) -> str:
        """What to tell the user."""
        if self.evidence is not None:
            return self.evidence.sentence
        if self.nearby is not None:
            return self.nearby.sentence(self.verb)
        if not self.reads_history:
            return "fits your taste as the model learned it; it reads no history to name items of"
        if not self.supports:
            return "fits your history as a whole; no single item decides it"
        named = " and ".join(support.label for support in self.supports)
        return f"because you {self.verb} {named}"

    def as_dict(self) -> dict[str, Any]:
        """Plain types only, with the figures behind the sentence."""
        return {
            "sentence": self.sentence,
            "rank": self.rank,
            "removal": "left out of the history" if self.reads_history else "not possible",
            "checks": [asdict(support) for support in self.supports],
            **({} if self.evidence is None else {"evidence": asdict(self.evidence)}),
            **({} if self.nearby is None else {"nearby": asdict(self.nearby)}),
        }


@torch.no_grad()
def find_reasons(
    model: Explainable,
    items: npt.NDArray[np.int32],
    targets: npt.NDArray[np.int64],
    length: int,
    catalog: Catalog,
    verb: str,
) -> list[Reason]:
    """For a whole history and each target `[k]`, the items that really support it.

    Every shortened history serves all targets, so the model sees one input an item, not one an item
    and target.
    """
    newest_first = items[-length:][::-1]
    left_out = newest_first[np.sort(np.unique(newest_first, return_index=True)[1])]
    variants = np.concatenate(
        (one_history(items, length), histories_without(items, left_out, length))
    )
    device = device_of(model)
    found = _consequences(
        model,
        torch.from_numpy(variants).to(device),
        torch.from_numpy(targets).to(device),
        met=torch.from_numpy(items.astype(np.int64)).to(device),
    )
    columns = list(zip(catalog.raw_ids(left_out), catalog.labels(left_out), strict=True))
    reasons = []
    for place in range(len(targets)):
        supports = [
            Support(
                item=raw,
                label=label,
                score_lost=float(found.logit[0, place] - found.logit[row, place]),
                # From logarithms, so that a tiny probability still loses a share.
                probability_lost=-math.expm1(
                    found.log_chance[row, place] - found.log_chance[0, place]
                ),
                rank_before=int(found.rank[0, place]),
                rank_without=int(found.rank[row, place]),
            )
            for row, (raw, label) in enumerate(columns, start=1)
        ]
        rank = int(found.rank[0, place])
        reasons.append(Reason(_strongest(supports), verb, rank, tuple(supports)))
    return reasons


@torch.no_grad()
def without_items(
    model: Explainable,
    batch: Tensor,
    items: npt.NDArray[np.int32],
    targets: Tensor,
    verb: str,
    others: Sequence[Explainable] = (),
) -> list[Reason]:
    """For one user, as `[1, n]`, of a model that reads no history: the targets' ranks alone.

    Of a model with experts also the kind of evidence that each rests on, and how many of the other
    seeds' models say so too.
    """
    met = torch.from_numpy(items.astype(np.int64)).to(batch.device)
    (ranks,) = _consequences(model, batch, targets, met).rank.tolist()
    told: list[Evidence | None] = [None] * len(ranks)
    if offers(model, "selections"):
        told = [*evidence_by_seeds([model, *others], batch.expand(len(targets), -1), targets)]
    return [
        Reason((), verb, rank, (), reads_history=False, evidence=one)
        for rank, one in zip(ranks, told, strict=True)
    ]


def _strongest(candidates: list[Support]) -> tuple[Support, ...]:
    """The one or two that pass, strongest first; equals stay in their order."""
    passed = [
        support
        for support in candidates
        if support.score_lost > 0 and support.probability_lost >= NOTICEABLE
    ]
    passed.sort(key=lambda support: -support.probability_lost)
    least = SECOND * passed[0].probability_lost if passed else 0.0
    return tuple(support for support in passed[:2] if support.probability_lost >= least)


@dataclass(frozen=True, eq=False)
class _Consequences:
    """`[rows, k]` each: for every history and every target."""

    logit: Tensor
    log_chance: Tensor
    rank: Tensor
    """From 1, among the items not met."""


def _consequences(
    model: Explainable, histories: Tensor, targets: Tensor, met: Tensor
) -> _Consequences:
    """What becomes of the targets under each history, some histories at a time."""
    item_count = model.score(histories[:1], ALL).shape[1]
    pieces: list[tuple[Tensor, Tensor, Tensor]] = []
    for rows in row_slices(len(histories), cases_at_once(item_count)):
        scores = model.score(histories[rows], ALL)
        own, log_chance = scores[:, targets], scores.log_softmax(dim=1)[:, targets]
        rivals = scores.index_fill(1, met, -torch.inf)
        rank = torch.empty_like(own, dtype=torch.int64)
        for place, one in enumerate(own.unbind(dim=1)):
            rank[:, place] = 1 + (rivals > one[:, None]).sum(dim=1)
        pieces.append((own, log_chance, rank))
    return _Consequences(*(torch.cat(column).cpu() for column in zip(*pieces, strict=True)))
