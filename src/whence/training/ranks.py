"""Where the item that came next stands among others, counted and not sorted, ties half."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Floats, Ints
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
"""Random items the true one is set among in the papers' sampled protocol."""
HISTORIES_AT_ONCE = 4096


@torch.no_grad()
def full_ranks(
    model: CaseReader, cases: Cases, length: int, item_count: int, show_progress: bool = False
) -> Floats:
    """Each true item's rank from 0 among all items but those in the history."""
    device = device_of(model)
    fitting = cases_at_once(item_count, device.type == "cuda")
    at_once = max(1, min(fitting, _histories_at_once(length, device), len(cases)))
    # Kept from slice to slice, since fresh memory of this size is slower than what is done in it.
    work = torch.empty(at_once, item_count, device=device)

    def rank(rows: Ints) -> Tensor:
        some = cases[rows]
        scores = score_all(model, some, length)
        own = scores.gather(1, torch.from_numpy(some.targets).to(scores.device)[:, None])
        # What was met is taken away afterwards, which saves a look at every score.
        row, item = (pair.to(scores.device) for pair in _met_rivals(some, item_count))
        met = _signs(scores[row, item], own[row, 0])
        lead = _lead(scores, own, work[: len(some)]).index_add(0, row, -met)
        return _rank(lead, item_count - 1 - torch.bincount(row, minlength=len(some)))

    return _shortest_first(rank, cases, at_once, show_progress)


def _met_rivals(cases: Cases, item_count: int) -> tuple[Tensor, Tensor]:
    """Every pair of a case and an item of its history, once, but for the true item."""
    row, item = seen_items(cases)
    pair = torch.unique(row * item_count + item)
    row, item = pair // item_count, pair % item_count
    rival = item != torch.from_numpy(cases.targets)[row]
    return row[rival], item[rival]


@torch.no_grad()
def sampled_ranks(
    model: CaseReader,
    cases: Cases,
    length: int,
    unseen: Unseen,
    seed: int,
    show_progress: bool = False,
) -> Floats:
    """Each true item's rank from 0 among itself and 100 random items, repeats possible.

    Where the true item is drawn as its own rival, it does not count.
    """
    chance = Randomness(seed).torch("evaluation")

    def rank(rows: Ints) -> Tensor:
        some = cases[rows]
        rivals = unseen.draw(torch.from_numpy(some.users), SAMPLED, chance)
        return _rank_among(model, some, length, rivals)

    return _shortest_first(
        rank,
        cases,
        min(HISTORIES_AT_ONCE, _histories_at_once(length, device_of(model))),
        show_progress,
    )


@torch.no_grad()
def ranks_among(
    model: CaseReader, cases: Cases, length: int, rivals: Ints, show_progress: bool = False
) -> Floats:
    """Each true item's rank from 0 among itself and its rivals `[B, r]`.

    Where the true item is its own rival, it does not count.
    """
    on_gpu = device_of(model).type == "cuda"
    return _shortest_first(
        lambda rows: _rank_among(model, cases[rows], length, torch.from_numpy(rivals[rows])),
        cases,
        min(HISTORIES_AT_ONCE, questions_at_once(length, 1 + rivals.shape[1], on_gpu)),
        show_progress,
    )


def _rank_among(model: CaseReader, cases: Cases, length: int, rivals: Tensor) -> Tensor:
    history = model.read(cases, length).to(device_of(model))
    true = torch.from_numpy(cases.targets)[:, None]
    scores = model.score(history, torch.cat((true, rivals), dim=1).to(history.device))
    own, others = scores.split((1, rivals.shape[1]), dim=1)
    counts = (rivals != true).to(scores.device)
    return _rank((_signs(others, own) * counts).sum(dim=1), counts.sum(dim=1))


def _shortest_first(
    rank: Callable[[Ints], Tensor], cases: Cases, at_once: int, show_progress: bool
) -> Floats:
    """The ranks of all cases, a few at a time, histories of like size together.

    So a model that computes no column in which all histories have ended has little to compute.
    """
    order = np.argsort(cases.ends - cases.starts, kind="stable")
    ranks = np.zeros(len(cases))
    bar = progress_bar(f"ranking {len(cases):,} events", len(cases), show_progress, transient=True)
    for rows in bar.track((order[rows] for rows in row_slices(len(cases), at_once)), size=len):
        ranks[rows] = rank(rows).cpu().numpy()
    return ranks


def _histories_at_once(length: int, device: torch.device) -> int:
    """As many as a model can let every item look at every other in."""
    return cases_at_once(length * length, device.type == "cuda")


def _rank(lead: Tensor, rivals: Tensor) -> Tensor:
    """How many rivals score higher and half of those that score the same, from 0.

    The lead is how many score higher less how many score lower.
    """
    return (lead + rivals) / 2


def _lead(scores: Tensor, own: Tensor, work: Tensor) -> Tensor:
    """`[B]`: how many of all items score higher than the true one, less how many lower."""
    # A sum of signs is several times faster than to count comparisons, and as exact.
    torch.sub(scores, own, out=work)
    if work.sum(dim=1).isfinite().all():
        return work.sign_().sum(dim=1)
    return _signs(scores, own).sum(dim=1) - own[:, 0].isnan().int()


def _signs(scores: Tensor, own: Tensor) -> Tensor:
    """1 where a score is higher than the true item's, −1 where lower.

    Where either is no number, the true item counts as lower: it was not found.
    """
    higher = ~(scores <= own)
    return higher.float() - (scores < own).float()


@torch.no_grad()
def rating_errors(
    model: CaseReader, interactions: Interactions, cases: Cases, length: int
) -> Floats:
    """|expected − given|, of each case whose next event has a rating."""
    rated = rated_cases(interactions, cases)
    if interactions.ratings is None or not len(rated):
        return np.zeros(0)
    given = interactions.ratings[cases.ends[rated]].astype(np.float64)
    at_once = questions_at_once(length, 1, device_of(model).type == "cuda")
    expected = np.zeros(len(rated))
    for some in row_slices(len(rated), at_once):
        batch, targets = batch_and_targets(model, cases[rated[some]], length)
        expected[some] = model.score(batch, targets[:, None])[:, 0].cpu().numpy()
    return np.abs(expected - given)


def rated_cases(interactions: Interactions, cases: Cases) -> Ints:
    """The places of those whose next event has a rating."""
    if interactions.ratings is None:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.isfinite(interactions.ratings[cases.ends]))
