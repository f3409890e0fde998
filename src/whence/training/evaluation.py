"""How often the item that came next is among the first ten, with intervals and protocols."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.contract import Explainable
from whence.data.histories import Cases
from whence.data.splits import Held, Split
from whence.errors import InputError, did_you_mean
from whence.measure import Measure, mean_measure
from whence.memory import ROWS_AT_ONCE, cases_at_once, row_slices
from whence.progress import progress_bar
from whence.randomness import Randomness
from whence.ranking import device_of, met_items, score_all
from whence.training.negatives import Unseen

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TOP = 10
SAMPLED = 100
"""Random items the true one is set among in the papers' sampled protocol."""
MEASURE = re.compile(
    rf"MRR|(?:recall|NDCG)@(?P<top>[1-9]\d*)|recall@(?P<few>[1-9]\d*)(?P<sampled> of {SAMPLED + 1})"
)


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
    model: Explainable,
    split: Split,
    held: Held,
    length: int,
    seed: int = 0,
    top: int = TOP,
    show_progress: bool = False,
) -> dict[str, Measure]:
    """Accuracy on the held-out events: full ranking, and the true item among 100 random ones.

    `length` is how many items of a history the model reads, `top` the k of recall@k and NDCG@k; the
    seed draws the random items.
    """
    return evaluate_cases(model, split, held, length, seed, top, show_progress).measures()


def evaluate_cases(
    model: Explainable,
    split: Split,
    held: Held,
    length: int,
    seed: int = 0,
    top: int = TOP,
    show_progress: bool = False,
) -> PerCase:
    """The same before the means are taken. A catalog of 100 items or fewer is not sampled."""
    full = full_accuracy(model, split, held, length, top, show_progress)
    if split.interactions.item_count <= SAMPLED:
        return full
    sampled = sampled_accuracy(model, split, held, length, seed, top, show_progress)
    return PerCase(full.values | sampled.values, full.protocols | sampled.protocols)


def full_accuracy(
    model: Explainable,
    split: Split,
    held: Held,
    length: int,
    top: int = TOP,
    show_progress: bool = False,
) -> PerCase:
    """By the true item's rank among all items."""
    cases = _cases(split, held, length, top)
    ranks = full_ranks(model, cases, length, split.interactions.item_count, show_progress)
    values = {
        f"recall@{top}": (ranks < top).astype(np.float64),
        f"NDCG@{top}": gain(ranks, top),
        "MRR": 1 / (1 + ranks),
    }
    protocol = f"{_where(split, held)}; ranked among itself and all items the user has not met"
    return PerCase(values, dict.fromkeys(values, protocol))


def sampled_accuracy(
    model: Explainable,
    split: Split,
    held: Held,
    length: int,
    seed: int = 0,
    top: int = TOP,
    show_progress: bool = False,
) -> PerCase:
    """By its rank among 100 random ones, the papers' sampled protocol."""
    ranks = sampled_ranks(
        model, _cases(split, held, length, top), length, Unseen(split), seed, show_progress
    )
    name = f"recall@{top} of {SAMPLED + 1}"
    protocol = (
        f"{_where(split, held)}; ranked among {SAMPLED} random items outside the user's training "
        "events (any items, for who has met them all)"
    )
    return PerCase({name: (ranks < top).astype(np.float64)}, {name: protocol})


def _cases(split: Split, held: Held, length: int, top: int) -> Cases:
    """The cases asked for, if the question makes sense."""
    if held not in split.held:
        raise InputError(f"Nothing is held out as '{held}': {did_you_mean(held, split.held)}")
    if length < 1 or top < 1 or int(top) != top:
        raise InputError(f"length and top are whole numbers from 1 on, not {length} and {top}.")
    if not len(split.held[held]):
        raise InputError(
            f"No {held} events are held out to measure accuracy on; leave-one-out needs users with "
            "three events."
        )
    return split.held[held]


def _where(split: Split, held: Held) -> str:
    return f"{len(split.held[held]):,} {held} events, {split.protocol}"


def gain(ranks: Floats, top: int = TOP) -> Floats:
    """NDCG@k with one true item: 1 / log₂(rank + 2) among the first k, ranks from 0."""
    return np.where(ranks < top, 1 / np.log2(ranks + 2), 0.0)


def check_measure(name: str) -> None:
    """Refuse a name that no evaluation gives."""
    if not MEASURE.fullmatch(name):
        known = [f"recall@{TOP}", f"NDCG@{TOP}", "MRR", f"recall@{TOP} of {SAMPLED + 1}"]
        raise InputError(
            f"There is no measure '{name}': {did_you_mean(name, known)} Any whole number from 1 on "
            f"may stand for the {TOP}."
        )


def mean_accuracy(name: str, model: Explainable, split: Split, held: Held, length: int) -> float:
    """One measure by its name, with nothing computed beside it."""
    found = MEASURE.fullmatch(name)
    assert found is not None
    top = int(found["top"] or found["few"] or TOP)
    if found["sampled"]:
        cases = sampled_accuracy(model, split, held, length, top=top)
    else:
        cases = full_accuracy(model, split, held, length, top)
    return float(cases.values[name].mean())


@torch.no_grad()
def full_ranks(
    model: Explainable, cases: Cases, length: int, item_count: int, show_progress: bool = False
) -> Floats:
    """Each true item's rank from 0 among all items but those in the history."""
    at_once = max(1, min(cases_at_once(item_count), _histories_at_once(length), len(cases)))
    # Kept from slice to slice, since fresh memory of this size is slower than what is done in it.
    work = torch.empty(at_once, item_count, device=device_of(model))

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
    row, item = met_items(cases)
    pair = torch.unique(row * item_count + item)
    row, item = pair // item_count, pair % item_count
    rival = item != torch.from_numpy(cases.targets)[row]
    return row[rival], item[rival]


@torch.no_grad()
def sampled_ranks(
    model: Explainable,
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
        history = torch.from_numpy(some.histories(length)).to(device_of(model))
        rivals = unseen.draw(torch.from_numpy(some.users), SAMPLED, chance)
        true = torch.from_numpy(some.targets)[:, None]
        scores = model.score(history, torch.cat((true, rivals), dim=1).to(history.device))
        own, others = scores.split((1, SAMPLED), dim=1)
        counts = (rivals != true).to(scores.device)
        return _rank((_signs(others, own) * counts).sum(dim=1), counts.sum(dim=1))

    return _shortest_first(
        rank, cases, min(ROWS_AT_ONCE, _histories_at_once(length)), show_progress
    )


def _shortest_first(
    rank: Callable[[Ints], Tensor], cases: Cases, at_once: int, show_progress: bool
) -> Floats:
    """The ranks of all cases, a few at a time, histories of like size together.

    So a model that computes no column in which all histories have ended has little to compute.
    """
    order = np.argsort(cases.ends - cases.starts, kind="stable")
    ranks = np.zeros(len(cases))
    bar = progress_bar(f"ranking {len(cases):,} events", len(cases), show_progress, passing=True)
    for rows in bar.track((order[rows] for rows in row_slices(len(cases), at_once)), size=len):
        ranks[rows] = rank(rows).cpu().numpy()
    return ranks


def _histories_at_once(length: int) -> int:
    """As many as a model can let every item look at every other in."""
    return cases_at_once(length * length)


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
