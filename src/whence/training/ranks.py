"""Ranks of the item that came next, counted without sorting; ties count half."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Floats, Ints, Ints32
from whence.contract import PAD
from whence.data.histories import Cases
from whence.data.interactions import Interactions
from whence.devices import device_of
from whence.memory import cases_at_once, questions_at_once, row_slices
from whence.models.base import CaseReader
from whence.progress import progress_bar
from whence.randomness import Randomness
from whence.ranking import batch_and_targets, score_all, seen_items
from whence.training.negatives import Unseen

SAMPLED = 100
"""Random items in the sampled protocol of the papers."""
HISTORIES_AT_ONCE = 4096


def full_ranks(
    model: CaseReader, cases: Cases, max_len: int, item_count: int, show_progress: bool = False
) -> Floats:
    """Return the rank of each true item, from 0, among all items outside the history."""
    return ranks_and_lists(model, cases, max_len, item_count, 0, show_progress)[0]


@torch.no_grad()
def ranks_and_lists(
    model: CaseReader,
    cases: Cases,
    max_len: int,
    item_count: int,
    top: int,
    show_progress: bool = False,
) -> tuple[Floats, Ints32]:
    """Return `full_ranks`, and from the same scores the `top` best unseen items of each case.

    The lists are `[B, top]`, or narrower if the catalog is smaller. A shorter list ends with `PAD`.
    """
    device = device_of(model)
    fitting = cases_at_once(item_count, device.type == "cuda")
    at_once = max(1, min(fitting, _histories_at_once(max_len, device), len(cases)))
    lists = np.full((len(cases), min(top, item_count)), PAD, dtype=np.int32)
    # Reused for every slice: allocating memory of this size is slower than what is done in it.
    work = torch.empty(at_once, item_count, device=device)

    def rank(rows: Ints) -> Tensor:
        some = cases[rows]
        scores = score_all(model, some, max_len)
        if lists.size:
            lists[rows] = _best_unseen(scores, some, lists.shape[1], work[: len(some)])
        own = scores.gather(1, torch.from_numpy(some.targets).to(scores.device)[:, None])
        # Subtracting the seen items afterwards avoids a mask over all scores.
        row, item = (pair.to(scores.device) for pair in _seen_rivals(some, item_count))
        seen = _signs(scores[row, item], own[row, 0])
        lead = _lead(scores, own, work[: len(some)]).index_add(0, row, -seen)
        return _rank(lead, item_count - 1 - torch.bincount(row, minlength=len(some)))

    return _shortest_first(rank, cases, at_once, show_progress), lists


def _best_unseen(scores: Tensor, cases: Cases, k: int, work: Tensor) -> Ints32:
    """Return `[B, k]` items, the best first, and `PAD` in place of seen items and scores of NaN."""
    row, item = (pair.to(scores.device) for pair in seen_items(cases))
    work.copy_(scores)
    work[row, item] = -torch.inf
    best = work.topk(k, dim=1)
    if best.values.isnan().any():  # which `topk` takes for the largest
        best = work.masked_fill_(work.isnan(), -torch.inf).topk(k, dim=1)
    items = torch.where(best.values > -torch.inf, best.indices, PAD)
    return items.int().cpu().numpy()


def _seen_rivals(cases: Cases, item_count: int) -> tuple[Tensor, Tensor]:
    """Return every pair of a case and an item of its history once, without the true item."""
    row, item = seen_items(cases)
    pair = torch.unique(row * item_count + item)
    row, item = pair // item_count, pair % item_count
    rival = item != torch.from_numpy(cases.targets)[row]
    return row[rival], item[rival]


@torch.no_grad()
def sampled_ranks(
    model: CaseReader,
    cases: Cases,
    max_len: int,
    unseen: Unseen,
    seed: int,
    show_progress: bool = False,
) -> Floats:
    """Return the rank of each true item, from 0, among 100 random items, which can repeat.

    A draw of the true item itself does not count.
    """
    chance = Randomness(seed).torch("evaluation")

    def rank(rows: Ints) -> Tensor:
        some = cases[rows]
        rivals = unseen.draw(torch.from_numpy(some.users), SAMPLED, chance)
        return _rank_among(model, some, max_len, rivals)

    return _shortest_first(
        rank,
        cases,
        min(HISTORIES_AT_ONCE, _histories_at_once(max_len, device_of(model))),
        show_progress,
    )


@torch.no_grad()
def ranks_among(
    model: CaseReader, cases: Cases, max_len: int, rivals: Ints, show_progress: bool = False
) -> Floats:
    """Return the rank of each true item, from 0, among its rivals `[B, r]`.

    The true item does not count as its own rival.
    """
    on_gpu = device_of(model).type == "cuda"
    return _shortest_first(
        lambda rows: _rank_among(model, cases[rows], max_len, torch.from_numpy(rivals[rows])),
        cases,
        min(HISTORIES_AT_ONCE, questions_at_once(max_len, 1 + rivals.shape[1], on_gpu)),
        show_progress,
    )


def _rank_among(model: CaseReader, cases: Cases, max_len: int, rivals: Tensor) -> Tensor:
    history = model.read(cases, max_len).to(device_of(model))
    true = torch.from_numpy(cases.targets)[:, None]
    scores = model.score(history, torch.cat((true, rivals), dim=1).to(history.device))
    own, others = scores.split((1, rivals.shape[1]), dim=1)
    counts = (rivals != true).to(scores.device)
    return _rank((_signs(others, own) * counts).sum(dim=1), counts.sum(dim=1))


def _shortest_first(
    rank: Callable[[Ints], Tensor], cases: Cases, at_once: int, show_progress: bool
) -> Floats:
    """Return the ranks of all cases, a few at a time, with histories of similar length together.

    This keeps padding short.
    """
    order = np.argsort(cases.ends - cases.starts, kind="stable")
    ranks = np.zeros(len(cases))
    bar = progress_bar(f"ranking {len(cases):,} events", len(cases), show_progress, transient=True)
    for rows in bar.track((order[rows] for rows in row_slices(len(cases), at_once)), size=len):
        ranks[rows] = rank(rows).cpu().numpy()
    return ranks


def _histories_at_once(max_len: int, device: torch.device) -> int:
    """Return how many histories fit into memory if every item attends to every other."""
    return cases_at_once(max_len * max_len, device.type == "cuda")


def _rank(lead: Tensor, rivals: Tensor) -> Tensor:
    """Return the number of rivals that score higher plus half of those that score the same.

    `lead` is the number that score higher minus the number that score lower.
    """
    return (lead + rivals) / 2


def _lead(scores: Tensor, own: Tensor, work: Tensor) -> Tensor:
    """Return `[B]`: how many items score higher than the true one, minus how many lower."""
    # A sum of signs is several times faster than counting comparisons, and as exact.
    torch.sub(scores, own, out=work)
    if work.sum(dim=1).isfinite().all():
        return work.sign_().sum(dim=1)
    return _signs(scores, own).sum(dim=1) - own[:, 0].isnan().int()


def _signs(scores: Tensor, own: Tensor) -> Tensor:
    """Return 1 for a score above that of the true item, and −1 for one below.

    If either is NaN, the true item counts as lower: it was not found.
    """
    higher = ~(scores <= own)
    return higher.float() - (scores < own).float()


@torch.no_grad()
def rating_errors(
    model: CaseReader, interactions: Interactions, cases: Cases, max_len: int
) -> Floats:
    """Return |predicted − given| for each case whose next event has a rating."""
    rated = rated_cases(interactions, cases)
    if interactions.ratings is None or not len(rated):
        return np.zeros(0)
    given = interactions.ratings[cases.ends[rated]].astype(np.float64)
    at_once = questions_at_once(max_len, 1, device_of(model).type == "cuda")
    expected = np.zeros(len(rated))
    for some in row_slices(len(rated), at_once):
        batch, targets = batch_and_targets(model, cases[rated[some]], max_len)
        expected[some] = model.score(batch, targets[:, None])[:, 0].cpu().numpy()
    return np.abs(expected - given)


def rated_cases(interactions: Interactions, cases: Cases) -> Ints:
    """Return the indices of the cases whose next event has a rating."""
    if interactions.ratings is None:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.isfinite(interactions.ratings[cases.ends]))
