"""Deletion: do recommendations change fastest without the parts that are called important?

The parts of a case are taken away one after another, the most important first, and after each the
distribution over all items is held against the one with everything present (Baumhauer 2021, 4.2.1).
Insertion goes the other way: from nothing, the most important part comes first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Bools, Floats, Ints
from whence.capabilities import require
from whence.config import require_choice
from whence.contract import Explainable
from whence.errors import InputError
from whence.explainers.random import uniform_by_case
from whence.explanation import Explanation
from whence.measure import Measure, mean_measure
from whence.randomness import Randomness
from whence.trust.faithfulness.curves import Curves, Divergence, Kind, find_divergence
from whence.trust.perturbation import LISTED, FullPredictions, check_batch, predict_full

Order = Explanation | Literal["random order", "greedy oracle"]
"""By the sizes an explanation gives; by chance; or at each step what changes most."""

TOPS: Final = (1, LISTED)
"""The lists of recommendations that are watched."""


@torch.no_grad()
def deletion_curves(
    model: Explainable,
    batch: Tensor,
    orders: Iterable[Order],
    *,
    kind: Kind = "deletion",
    divergence: str = "symmetrised KL",
    seed: int = 0,
    memory: int | None = None,
) -> dict[str, Curves]:
    """Curves by the name of each order, for the cases `[B, n]` that the explanations are of.

    Equally important parts go in slot order. The greedy oracle takes at each step the part whose
    loss moves the distribution furthest (whose return brings it nearest), n²/2 inputs a case.
    `seed` decides the random order; about `memory` bytes are used at a time.
    """
    require(model, ("parts", "score"), who=kind)
    require_choice("kind", kind, Kind)
    check_batch(batch)
    between = find_divergence(divergence)
    parts = model.parts(batch).cpu().numpy()
    ranks = _by_name(orders, batch, parts, seed)
    found: dict[str, list[Tensor]] = {name: [] for name in ranks}
    for cases, whole in predict_full(model, batch, memory):
        walk = _Walk(whole, kind, between)
        empty = walk.empty()
        for name, rank in ranks.items():
            given = walk.greedy() if rank is None else torch.from_numpy(rank[cases])
            found[name].append(walk.along(given.to(batch.device), empty))
    counts = parts.sum(axis=1)
    return {
        name: _curves(pieces, counts, kind, divergence, name, model.removal)
        for name, pieces in found.items()
    }


def _curves(
    pieces: list[Tensor], counts: Ints, kind: Kind, divergence: str, order: str, removal: str
) -> Curves:
    steps = torch.cat(pieces)[:, : counts.max() + 1].cpu().numpy()
    changed = {top: steps[:, :, 1 + place] == 1 for place, top in enumerate(TOPS)}
    return Curves(steps[:, :, 0], counts, kind, divergence, order, removal, changed)


def _by_name(
    orders: Iterable[Order], batch: Tensor, parts: Bools, seed: int
) -> dict[str, Ints | None]:
    """Which part comes when; nothing for the oracle, which finds out on the way."""
    ranks: dict[str, Ints | None] = {}
    for order in orders:
        name = order.method if isinstance(order, Explanation) else order
        if name in ranks:
            raise InputError(f"Two orders are called '{name}'; put them to the test separately.")
        if isinstance(order, Explanation):
            ranks[name] = _ranks(_sizes(order, parts), parts)
        elif order == "random order":
            stream = Randomness(seed).sequence("explain")
            ranks[name] = _ranks(uniform_by_case(stream, batch, torch.from_numpy(parts)), parts)
        elif order == "greedy oracle":
            ranks[name] = None
        else:
            raise InputError(
                f"An order is an explanation, 'random order' or 'greedy oracle', not '{order}'."
            )
    return ranks


def _sizes(explanation: Explanation, parts: Bools) -> Floats:
    if not np.array_equal(explanation.parts, parts):
        raise InputError(f"The {explanation.method} explanation is of other cases than the batch.")
    sizes = explanation.magnitude()
    if np.isnan(sizes[parts]).any():
        raise InputError(f"The {explanation.method} explanation has parts without an importance.")
    return sizes


def _ranks(sizes: Floats, parts: Bools) -> Ints:
    """`[B, n]`: how many parts come before each, the largest first; n where there is no part."""
    slots = parts.shape[1]
    order = np.argsort(np.where(parts, -sizes, np.inf), axis=1, kind="stable")
    ranks = np.full(parts.shape, slots)
    np.put_along_axis(ranks, order, np.arange(slots)[None], axis=1)
    return np.where(parts, ranks, slots)


@dataclass(frozen=True, eq=False)
class _Walk:
    """From one end to the other of some cases, in any order."""

    whole: FullPredictions
    kind: Kind
    divergence: Divergence

    def empty(self) -> Tensor:
        """`[b, 1 + tops]`: what is left where all parts are taken."""
        case = torch.arange(len(self.whole.batch), device=self.whole.batch.device)
        return torch.cat(
            [
                self._compared(case[rows], ~self.whole.parts[rows])
                for rows in self.whole.slices(len(case))
            ]
        )

    def along(self, rank: Tensor, empty: Tensor) -> Tensor:
        """`[b, n + 1, 1 + tops]`: the divergence, and which lists have changed, at each step."""
        parts = self.whole.parts
        counts = parts.sum(dim=1)
        steps = torch.arange(parts.shape[1] + 1, device=parts.device)
        found = empty.new_full((len(parts), len(steps), empty.shape[1]), torch.nan)
        case, step = ((steps > 0) & (steps < counts[:, None])).nonzero(as_tuple=True)
        for rows in self.whole.slices(len(case)):
            which, number = case[rows], step[rows]
            present = self._present(which, rank[which] < number[:, None])
            found[which, number] = self._compared(which, present)
        deleted = self.kind == "deletion"
        each = torch.arange(len(parts), device=parts.device)
        found[each, counts if deleted else 0] = empty
        found[each, 0 if deleted else counts] = 0
        return found

    def greedy(self) -> Tensor:
        """`[b, n]`: the rank of each part if at every step the one comes that changes most."""
        parts = self.whole.parts
        rank = torch.full_like(parts, parts.shape[1], dtype=torch.int64)
        left = parts.clone()
        for step in range(int(parts.sum(dim=1).max())):
            case, slot = left.nonzero(as_tuple=True)
            gain = torch.full(parts.shape, -torch.inf, dtype=torch.float64, device=parts.device)
            for rows in self.whole.slices(len(case)):
                which = case[rows]
                taken = (parts & ~left)[which].scatter(1, slot[rows, None], True)
                log_q = self.whole.with_only(which, self._present(which, taken))
                moved = self.divergence.between(self.whole.log_p[which], log_q)
                gain[which, slot[rows]] = moved if self.kind == "deletion" else -moved
            going = left.any(dim=1).nonzero()[:, 0]
            best = gain[going].argmax(dim=1)
            rank[going, best] = step
            left[going, best] = False
        return rank

    def _present(self, case: Tensor, taken: Tensor) -> Tensor:
        """`[R, n]`: without those parts, or with them alone; what is no part stays."""
        return ~taken if self.kind == "deletion" else taken | ~self.whole.parts[case]

    def _compared(self, case: Tensor, present: Tensor) -> Tensor:
        """`[R, 1 + tops]`: how far the cases have moved, and whether each list has changed."""
        log_q = self.whole.with_only(case, present)
        top = self.whole.top[case]
        changed = [_other_items(log_q, top[:, :size]) for size in TOPS]
        moved = self.divergence.between(self.whole.log_p[case], log_q)
        return torch.stack((moved, *changed), dim=1)


def _other_items(log_q: Tensor, top: Tensor) -> Tensor:
    """`[R]`: whether any item is now more probable than one of those `[R, k]`."""
    others = log_q.scatter(1, top, -torch.inf).amax(dim=1)
    return others > log_q.gather(1, top).amin(dim=1)


# Flips: how many important parts must go before the model recommends something else?


@dataclass(frozen=True, eq=False)
class Flips:
    """When a list of recommendations first has another item in it, of `B` cases."""

    steps: Floats
    """`[B]`: after how many deletions; one more than there are parts where it never has, NaN where
    there is none."""
    counts: Ints
    """`[B]`: how many parts each case has."""
    protocol: str

    def never(self) -> float:
        """The share of cases in which all parts can go and the list stays."""
        some = self.counts > 0
        return float((self.steps[some] > self.counts[some]).mean())

    def measure(self) -> Measure:
        """The mean number of deletions; an order that finds what matters needs few."""
        known = self.steps[self.counts > 0]
        return mean_measure(known, self.protocol, "lower is better", (1.0, math.inf))


def flips(curves: Curves, top: int = 1) -> Flips:
    """From the curves of a deletion, for the first item or the set of the first ten.

    A case whose list never changes counts with one deletion more than it has parts, so that hard
    cases cannot make an order look good by being left out.
    """
    if curves.kind != "deletion" or top not in curves.changed:
        known = ", ".join(map(str, curves.changed)) or "none"
        raise InputError(
            f"Flips are counted on deletion curves for the top {known}; these are {curves.kind} "
            f"curves, and the top {top} is asked for."
        )
    changed = curves.changed[top]
    first = np.where(changed.any(axis=1), changed.argmax(axis=1), curves.counts + 1)
    what = "item" if top == 1 else f"{top} items"
    return Flips(
        np.where(curves.counts > 0, first, np.nan),
        curves.counts,
        f"mean over cases of the deletions until the top {what} change, parts by {curves.order}, "
        f"removal {curves.removal}; one more than there are parts if never",
    )
