"""Reasons of models that read no history, so that no item can be named."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from whence.arrays import Ints32
from whence.contract import ALL, offers
from whence.models.base import CaseReader
from whence.reasons.evidence import Evidence, evidence_by_seeds
from whence.reasons.reason import Reason


@torch.no_grad()
def reasons_without_history(
    model: CaseReader,
    batch: Tensor,
    items: Ints32,
    targets: Tensor,
    verb: str,
    experts: Sequence[CaseReader],
) -> list[Reason]:
    """Return reasons for one user, as `[1, n]`, with the ranks of the targets.

    If the models of the seeds have experts, they also hold the evidence that each target rests on
    for the first of them, and how many of the others agree.
    """
    seen = torch.from_numpy(items.astype("int64")).to(batch.device)
    (scores,) = model.score(batch, ALL)
    rivals = scores.index_fill(0, seen, -torch.inf)
    ranks = (1 + (rivals > scores[targets, None]).sum(dim=1)).tolist()
    evidence: list[Evidence | None] = [None] * len(ranks)
    if offers(experts[0], "selections"):
        evidence = [*evidence_by_seeds(experts, batch.expand(len(targets), -1), targets)]
    in_history = torch.isin(targets, seen).tolist()
    return [
        Reason("no history", verb, rank, in_history=seen_before, evidence=one)
        for rank, seen_before, one in zip(ranks, in_history, evidence, strict=True)
    ]
