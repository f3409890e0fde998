"""How often the item that came next is among the first ten, with intervals and protocols."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.contract import Explainable
from whence.data.histories import Cases
from whence.data.splits import Held, Split
from whence.errors import InputError
from whence.measure import Measure, mean_measure
from whence.memory import cases_at_once, row_slices
from whence.randomness import Randomness
from whence.ranking import device_of, met_items, score_all
from whence.training.negatives import Unseen

Floats = npt.NDArray[np.float64]

TOP = 10
SAMPLED = 100
"""Random items the true one is set among in the papers' sampled protocol."""


@dataclass(frozen=True, eq=False)
class PerCase:
    """One value a case for every measure, with what was measured."""

    values: dict[str, Floats]
    protocols: dict[str, str]

    def measures(self) -> dict[str, Measure]:
        """The means with their intervals."""
        return {
            name: mean_measure(values, self.protocols[name]) for name, values in self.values.items()
        }

    def lead_over(self, other: PerCase) -> dict[str, Measure]:
        """How much higher than the other on the same cases, which the intervals know of."""
        return {
            name: mean_measure(
                values - other.values[name],
                f"difference, case by case; {self.protocols[name]}",
                range=(-1.0, 1.0),
            )
            for name, values in self.values.items()
        }


def evaluate(
    model: Explainable, split: Split, held: Held, length: int, seed: int = 0
) -> dict[str, Measure]:
    """Accuracy on the held-out events: full ranking, and the true item among 100 random ones."""
    return evaluate_cases(model, split, held, length, seed).measures()


def evaluate_cases(
    model: Explainable, split: Split, held: Held, length: int, seed: int = 0
) -> PerCase:
    """The same before the means are taken. A catalog of 100 items or fewer is not sampled."""
    cases = split.held[held]
    if not len(cases):
        raise InputError("No user has the three events that measuring accuracy needs.")
    where = f"{len(cases):,} {held} events, {split.protocol}"
    full = full_ranks(model, cases, length, split.interactions.item_count)
    values = {
        f"recall@{TOP}": (full < TOP).astype(np.float64),
        f"NDCG@{TOP}": gain(full),
        "MRR": 1 / (1 + full),
    }
    protocols = dict.fromkeys(values, f"{where}; ranked among all items the user has not met")
    if split.interactions.item_count > SAMPLED:
        sampled = sampled_ranks(model, cases, length, Unseen(split), seed)
        name = f"recall@{TOP} of {SAMPLED + 1}"
        values[name] = (sampled < TOP).astype(np.float64)
        protocols[name] = (
            f"{where}; ranked among {SAMPLED} random items outside the user's training events "
            "(any items, for who has met them all)"
        )
    return PerCase(values, protocols)


def gain(ranks: Floats) -> Floats:
    """NDCG@10 with one true item: 1 / log₂(rank + 2), ranks from 0."""
    return np.where(ranks < TOP, 1 / np.log2(ranks + 2), 0.0)


@torch.no_grad()
def full_ranks(model: Explainable, cases: Cases, length: int, item_count: int) -> Floats:
    """Each true item's rank from 0 among all items but those in the history."""
    ranks = []
    for rows in row_slices(len(cases), cases_at_once(item_count)):
        scores = score_all(model, cases[rows], length)
        true = torch.from_numpy(cases[rows].targets).to(scores.device)
        above, equal = _rivals(scores, true)
        met_above, met_equal = _met_rivals(scores, true, cases[rows])
        ranks.append(_halved(above - met_above, equal - met_equal))
    return np.concatenate(ranks) if ranks else np.zeros(0)


def _met_rivals(scores: Tensor, true: Tensor, cases: Cases) -> tuple[Tensor, Tensor]:
    """How many items of each history score above the true one, and how many the same.

    Taken from all of them afterwards, which saves a look at every score.
    """
    item_count = scores.shape[1]
    row, item = met_items(cases)
    pair = torch.unique(row * item_count + item).to(scores.device)
    row, item = pair // item_count, pair % item_count
    rival = item != true[row]
    row, item = row[rival], item[rival]
    own = scores[row, true[row]]
    above, equal = ~(scores[row, item] <= own), scores[row, item] == own
    counts = torch.zeros(2, len(scores), dtype=torch.int64, device=scores.device)
    counts[0].index_add_(0, row, above.long())
    counts[1].index_add_(0, row, equal.long())
    return counts[0], counts[1]


@torch.no_grad()
def sampled_ranks(
    model: Explainable, cases: Cases, length: int, unseen: Unseen, seed: int
) -> Floats:
    """Each true item's rank from 0 among itself and 100 random items, repeats possible.

    Where the true item is drawn as its own rival, it does not count.
    """
    users, targets = torch.from_numpy(cases.users), torch.from_numpy(cases.targets)
    negatives = unseen.draw(users, SAMPLED, Randomness(seed).torch("negatives"))
    candidates = torch.cat((targets[:, None], negatives), dim=1)
    first = torch.zeros(len(cases), dtype=torch.int64)
    ranks = []
    for rows in row_slices(len(cases)):
        history = torch.from_numpy(cases[rows].histories(length)).to(device_of(model))
        scores = model.score(history, candidates[rows].to(history.device)).cpu()
        itself = candidates[rows, 1:] == candidates[rows, :1]
        scores[:, 1:][itself] = -torch.inf
        ranks.append(_rank(scores, first[rows]))
    return np.concatenate(ranks) if ranks else np.zeros(0)


def _rank(scores: Tensor, true: Tensor) -> Floats:
    """How many score higher, and half of those that score the same; no number ranks last."""
    return _halved(*_rivals(scores, true))


def _rivals(scores: Tensor, true: Tensor) -> tuple[Tensor, Tensor]:
    """How many others score above the true item, or are no numbers, and how many the same."""
    own = scores.gather(1, true[:, None])
    not_above, below = _count(scores <= own), _count(scores < own)
    return scores.shape[1] - not_above, (not_above - below - 1).clamp(min=0)


def _count(marked: Tensor) -> Tensor:
    """How many are marked in each row; several times faster than to add up truths."""
    return marked.view(torch.uint8).sum(dim=1, dtype=torch.int32).long()


def _halved(above: Tensor, equal: Tensor) -> Floats:
    return np.asarray((above + equal / 2).cpu().numpy(), dtype=np.float64)
