"""Reasons in words, checked with the model before they are given.

"Because you watched X" is only said if the recommendation loses without X: its score falls, and so
does its probability among all items, by a noticeable share. "Without X" is meant literally: X is
left out at every position, older items move up, and the model scores the rest. If no single item
passes, no item is named. You can also ask for the reason by the model's own removal, for instance
by attention columns; the reason says which one was used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import torch
from rich.text import Text
from torch import Tensor

from whence.config import build
from whence.console import plain
from whence.contract import ALL, DROPPED, offers
from whence.data.catalog import Catalog
from whence.data.histories import histories_without, one_history
from whence.devices import device_of
from whence.memory import cases_at_once, row_slices
from whence.models.base import CaseReader, HasOwnReasons
from whence.models.dropping import require_removal
from whence.reasons.evidence import NOTICEABLE, Evidence, evidence_by_seeds
from whence.reasons.similar_users import SimilarUsers
from whence.terminal import Result

SECOND: Final = 0.5
"""A second item is named if it weighs at least this share of the first."""
NO_HISTORY: Final = (
    "fits your taste as the model learned it; this model reads no history, so it names no item"
)
NOT_POSSIBLE: Final = "not possible"
"""How a document says that no item can be removed."""
FORMER_DROPPED: Final = "left out of the history"
"""How version 0.1 wrote `DROPPED`."""
LARGEST_CHANGE = 700.0
"""In a log-probability: weights that a stranger wrote can change it by more than a float holds."""


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


@dataclass(frozen=True, repr=False)
class Reason(Result):
    """The items that pass the checks, strongest first; none if no item passes."""

    supports: tuple[Support, ...]
    verb: str
    rank: int
    """The recommendation's rank, from 1, among the items that are not in the history."""
    considered: tuple[Support, ...]
    """Every item of the history that the model reads, newest first, whether it passes or not."""
    reads_history: bool = True
    """False for a model that knows users only by id and has no item to name."""
    in_history: bool = False
    """Whether the explained item is in the history; it is never its own reason."""
    evidence: Evidence | None = None
    """What the experts rest on, if the model has experts and reads no history."""
    similar_users: SimilarUsers | None = None
    """Similar users who chose the item, if the model has user vectors and reads no history."""
    own: str | None = None
    """The rule of the model in words, if its rule is the reason."""
    removal: str = DROPPED
    """How the checks remove an item; all its copies in the history are removed."""

    @property
    def sentence(self) -> str:
        """What to tell the user."""
        if self.evidence is not None:
            return self.evidence.sentence
        if self.similar_users is not None:
            return self.similar_users.sentence(self.verb)
        if not self.reads_history:
            return NO_HISTORY
        if self.own is not None:
            return f"already in your history; {self.own}" if self.in_history else self.own
        named = " and ".join(support.label for support in self.supports)
        because = f"because you {self.verb} {named}"
        if self.in_history:
            also = f"it also scores {because}" if named else "no other item decides its score"
            return f"already in your history; {also}"
        return because if named else "fits your history as a whole; no single item decides it"

    def as_dict(self) -> dict[str, Any]:
        """Return plain types only, with the figures behind the sentence."""
        return {
            "sentence": self.sentence,
            "rank": self.rank,
            "verb": self.verb,
            "removal": self.removal if self.reads_history else NOT_POSSIBLE,
            "in_history": self.in_history,
            "checks": [asdict(support) for support in self.supports],
            "considered": [asdict(support) for support in self.considered],
            **({} if self.evidence is None else {"evidence": asdict(self.evidence)}),
            **({} if self.similar_users is None else {"similar_users": asdict(self.similar_users)}),
            **({} if self.own is None else {"own": self.own}),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the reason that `as_dict` described."""
        evidence, similar_users = document.get("evidence"), document.get("similar_users")
        return cls(
            supports=tuple(Support(**one) for one in document["checks"]),
            verb=document["verb"],
            rank=document["rank"],
            considered=tuple(Support(**one) for one in document["considered"]),
            reads_history=document["removal"] != NOT_POSSIBLE,
            in_history=document["in_history"],
            evidence=build(Evidence, evidence) if evidence else None,
            similar_users=SimilarUsers(**similar_users) if similar_users else None,
            own=document.get("own"),
            removal=DROPPED
            if document["removal"] in (NOT_POSSIBLE, FORMER_DROPPED)
            else document["removal"],
        )

    def __rich__(self) -> Text:
        return plain(self.sentence)

    def __repr__(self) -> str:
        return f"Reason({self.sentence!r}, rank={self.rank})"


@torch.no_grad()
def find_reasons(
    model: CaseReader,
    items: npt.NDArray[np.int32],
    targets: npt.NDArray[np.int64],
    max_len: int,
    catalog: Catalog,
    verb: str,
    removal: str = DROPPED,
) -> list[Reason]:
    """Return, for a whole history and each target `[k]`, the items that really support it.

    Each shortened history serves all targets, so the model reads one input per item, not one per
    item and target.
    """
    require_removal(model, removal)
    newest_first = items[-max_len:][::-1]
    left_out = newest_first[np.sort(np.unique(newest_first, return_index=True)[1])]
    variants = np.concatenate(
        (one_history(items, max_len), histories_without(items, left_out, max_len))
    )
    device = device_of(model)
    histories, asked = torch.from_numpy(variants).to(device), torch.from_numpy(targets).to(device)
    own = _own_sentences(model, histories[:1], asked, catalog, verb)
    present = None
    if removal != DROPPED:  # the items of the whole history stay where they are
        removed = torch.from_numpy(left_out).to(device)
        histories = histories[:1].expand(len(histories), -1)
        present = torch.ones_like(histories, dtype=torch.bool)
        present[1:] = histories[1:] != removed[:, None]
    found = _outcomes(
        model,
        histories,
        present,
        asked,
        seen=torch.from_numpy(items.astype(np.int64)).to(device),
        at_once=cases_at_once(len(catalog)),
    )
    columns = list(zip(catalog.raw_ids(left_out), catalog.labels(left_out), strict=True))
    reasons = []
    for place, target in enumerate(targets.tolist()):
        considered = tuple(
            found.support(row, place, raw, label) for row, (raw, label) in enumerate(columns, 1)
        )
        others = [one for one, item in zip(considered, left_out, strict=True) if item != target]
        reasons.append(
            Reason(
                _strongest(others) if own[place] is None else (),
                verb,
                int(found.rank[0, place]),
                considered,
                in_history=bool((items == target).any()),
                own=own[place],
                removal=removal,
            )
        )
    return reasons


def _own_sentences(
    model: CaseReader, history: Tensor, targets: Tensor, catalog: Catalog, verb: str
) -> list[str | None]:
    """Return the model's own reason for each target of one history `[1, n]`, if it has any."""
    if not isinstance(model, HasOwnReasons):
        return [None] * len(targets)
    return [
        one.sentence.format(
            verb=verb, item="" if one.item is None else catalog.labels([one.item])[0]
        )
        for one in model.own_reasons(history.expand(len(targets), -1), targets)
    ]


@torch.no_grad()
def reasons_without_history(
    model: CaseReader,
    batch: Tensor,
    items: npt.NDArray[np.int32],
    targets: Tensor,
    verb: str,
    experts: Sequence[CaseReader],
) -> list[Reason]:
    """Return reasons for one user, as `[1, n]`, of a model that reads no history.

    They hold the targets' ranks. If the models of the seeds have experts, they also hold the
    evidence that each target rests on for the first of them, and how many of the others agree.
    """
    seen = torch.from_numpy(items.astype(np.int64)).to(batch.device)
    (ranks,) = _outcomes(model, batch, None, targets, seen, len(batch)).rank.tolist()
    evidence: list[Evidence | None] = [None] * len(ranks)
    if offers(experts[0], "selections"):
        evidence = [*evidence_by_seeds(experts, batch.expand(len(targets), -1), targets)]
    in_history = torch.isin(targets, seen).tolist()
    return [
        Reason((), verb, rank, (), reads_history=False, in_history=seen_before, evidence=one)
        for rank, seen_before, one in zip(ranks, in_history, evidence, strict=True)
    ]


def _strongest(candidates: list[Support]) -> tuple[Support, ...]:
    """Return the one or two that pass, strongest first; equals keep their order."""
    passed = [
        support
        for support in candidates
        if support.score_lost > 0 and support.probability_lost >= NOTICEABLE
    ]
    passed.sort(key=lambda support: -support.probability_lost)
    least = SECOND * passed[0].probability_lost if passed else 0.0
    return tuple(support for support in passed[:2] if support.probability_lost >= least)


@dataclass(frozen=True, eq=False)
class _Outcomes:
    """`[rows, k]` each: for every history and every target. Row 0 is the whole history."""

    logit: Tensor
    log_probability: Tensor
    rank: Tensor
    """From 1, among the unseen items."""

    def support(self, row: int, place: int, raw: object, label: str) -> Support:
        """Return what a target loses in a shortened history."""
        change = self.log_probability[row, place] - self.log_probability[0, place]
        return Support(
            item=raw,
            label=label,
            score_lost=float(self.logit[0, place] - self.logit[row, place]),
            # From logarithms, so that a tiny probability still loses a share.
            probability_lost=-math.expm1(min(float(change), LARGEST_CHANGE)),
            rank_before=int(self.rank[0, place]),
            rank_without=int(self.rank[row, place]),
        )


def _outcomes(
    model: CaseReader,
    histories: Tensor,
    present: Tensor | None,
    targets: Tensor,
    seen: Tensor,
    at_once: int,
) -> _Outcomes:
    """Score the targets under each history, a few histories at a time."""
    pieces: list[tuple[Tensor, Tensor, Tensor]] = []
    for rows in row_slices(len(histories), at_once):
        some = None if present is None else present[rows]
        scores = model.score(histories[rows], ALL, present=some)
        own, log_probability = scores[:, targets], scores.log_softmax(dim=1)[:, targets]
        rivals = scores.index_fill(1, seen, -torch.inf)
        rank = torch.empty_like(own, dtype=torch.int64)
        for place, one in enumerate(own.unbind(dim=1)):
            rank[:, place] = 1 + (rivals > one[:, None]).sum(dim=1)
        pieces.append((own, log_probability, rank))
    return _Outcomes(*(torch.cat(column).cpu() for column in zip(*pieces, strict=True)))
