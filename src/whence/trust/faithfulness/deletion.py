"""Deletion: do recommendations change most without the parts that are called important?

The parts of a case are removed one after another, the most important first. After each, the
distribution over all items is compared with that of the full case (Baumhauer 2021, 4.2.1).
Insertion starts from nothing and adds the most important part first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
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
from whence.measure import Direction, Measure, mean_measure
from whence.randomness import Randomness
from whence.trust.faithfulness.curves import (
    CurveKind,
    Curves,
    Divergence,
    find_divergence,
    normalised_area,
)
from whence.trust.measures import MEASURES, SCORES, MeasureSpec
from whence.trust.perturbation import TOP_TEN, FullPredictions, check_batch, predict_full

Order = Explanation | Literal["random order", "greedy oracle"]
"""By the magnitudes of an explanation, at random, or at each step what changes most."""

TOPS: Final = (1, TOP_TEN)
"""The lengths of the lists of recommendations that are compared."""


@torch.no_grad()
def deletion_curves(
    model: Explainable,
    batch: Tensor,
    orders: Iterable[Order],
    *,
    kind: CurveKind = "deletion",
    divergence: str = "symmetrised KL",
    seed: int = 0,
    memory: int | None = None,
) -> dict[str, Curves]:
    """Return curves by the name of each order, for the cases `[B, n]` of the explanations.

    Equally important parts go in slot order. At each step the greedy oracle takes the part that
    moves the distribution furthest (or brings it nearest), which takes n²/2 inputs per case. `seed`
    determines the random order; about `memory` bytes are used at a time.
    """
    require(model, ("parts", "score"), who=kind)
    require_choice("kind", kind, CurveKind)
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
    pieces: list[Tensor], counts: Ints, kind: CurveKind, divergence: str, order: str, removal: str
) -> Curves:
    steps = torch.cat(pieces)[:, : counts.max() + 1].cpu().numpy()
    changed = {top: steps[:, :, 1 + place] == 1 for place, top in enumerate(TOPS)}
    return Curves(steps[:, :, 0], counts, kind, divergence, order, removal, changed)


def _by_name(
    orders: Iterable[Order], batch: Tensor, parts: Bools, seed: int
) -> dict[str, Ints | None]:
    """Return the rank of each part; `None` for the oracle, which finds its order on the way."""
    ranks: dict[str, Ints | None] = {}
    for order in orders:
        name = order.method if isinstance(order, Explanation) else order
        if name in ranks:
            raise InputError(f"Two orders are called '{name}'; test them separately.")
        if isinstance(order, Explanation):
            ranks[name] = _ranks(_sizes(order, parts), parts)
        elif order == "random order":
            stream = Randomness(seed).sequence("explain")
            ranks[name] = _ranks(uniform_by_case(stream, batch, torch.from_numpy(parts)), parts)
        elif order == "greedy oracle":
            ranks[name] = None
        else:
            raise InputError(
                f"Use an explanation, 'random order' or 'greedy oracle' as an order, not {order!r}."
            )
    return ranks


def _sizes(explanation: Explanation, parts: Bools) -> Floats:
    if not np.array_equal(explanation.parts, parts):
        raise InputError(
            f"The explanation by {explanation.method} is of other cases than the batch."
        )
    sizes = explanation.magnitude()
    if np.isnan(sizes[parts]).any():
        raise InputError(f"The explanation by {explanation.method} has NaN for some parts.")
    return sizes


def _ranks(sizes: Floats, parts: Bools) -> Ints:
    """Return how many parts come before each `[B, n]`, the largest first; n without a part."""
    slots = parts.shape[1]
    order = np.argsort(np.where(parts, -sizes, np.inf), axis=1, kind="stable")
    ranks = np.full(parts.shape, slots)
    np.put_along_axis(ranks, order, np.arange(slots)[None], axis=1)
    return np.where(parts, ranks, slots)


@dataclass(frozen=True, eq=False)
class _Walk:
    """Deletes or inserts the parts of some cases, in any order."""

    whole: FullPredictions
    kind: CurveKind
    divergence: Divergence

    def empty(self) -> Tensor:
        """Return the comparison `[b, 1 + tops]` with the empty case."""
        case = torch.arange(len(self.whole.batch), device=self.whole.batch.device)
        return torch.cat(
            [
                self._compared(case[rows], ~self.whole.parts[rows])
                for rows in self.whole.slices(len(case))
            ]
        )

    def along(self, rank: Tensor, empty: Tensor) -> Tensor:
        """Return the divergence and which lists changed at each step `[b, n + 1, 1 + tops]`."""
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
        """Return the rank of each part `[b, n]` if every step takes what changes most."""
        parts = self.whole.parts
        rank = torch.full_like(parts, parts.shape[1], dtype=torch.int64)
        left = parts.clone()
        for step in range(int(parts.sum(dim=1).max())):
            case, slot = left.nonzero(as_tuple=True)
            gain = torch.full(parts.shape, -torch.inf, dtype=torch.float64, device=parts.device)
            for rows in self.whole.slices(len(case)):
                which = case[rows]
                taken = (parts & ~left)[which].scatter(1, slot[rows, None], True)
                log_q = self.whole.log_p_with(which, self._present(which, taken))
                moved = self.divergence.between(self.whole.log_p[which], log_q)
                gain[which, slot[rows]] = moved if self.kind == "deletion" else -moved
            going = left.any(dim=1).nonzero()[:, 0]
            best = gain[going].argmax(dim=1)
            rank[going, best] = step
            left[going, best] = False
        return rank

    def _present(self, case: Tensor, taken: Tensor) -> Tensor:
        """Return the slots present `[R, n]`: without these parts, or with only them."""
        return ~taken if self.kind == "deletion" else taken | ~self.whole.parts[case]

    def _compared(self, case: Tensor, present: Tensor) -> Tensor:
        """Return how much the cases changed, and whether each list did `[R, 1 + tops]`."""
        log_q = self.whole.log_p_with(case, present)
        top = self.whole.top[case]
        changed = [_other_items(log_q, top[:, :size]) for size in TOPS]
        moved = self.divergence.between(self.whole.log_p[case], log_q)
        return torch.stack((moved, *changed), dim=1)


def _other_items(log_q: Tensor, top: Tensor) -> Tensor:
    """Return whether any other item is now more probable than one of these `[R, k]`."""
    others = log_q.scatter(1, top, -torch.inf).amax(dim=1)
    return others > log_q.gather(1, top).amin(dim=1)


# Flips


@dataclass(frozen=True, eq=False)
class Flips:
    """After how many deletions a list of recommendations changes, for `B` cases."""

    steps: Floats
    """`[B]`: one more than the number of parts if it never changes; NaN without parts."""
    counts: Ints
    """`[B]`: the number of parts of each case."""
    protocol: str

    def never(self) -> float:
        """Return the share of cases whose list stays the same without any parts."""
        some = self.counts > 0
        return float((self.steps[some] > self.counts[some]).mean())

    def measure(self) -> Measure:
        """Return the mean number of deletions; a good order needs few."""
        known = self.steps[self.counts > 0]
        return mean_measure(known, self.protocol, "lower is better", (1.0, math.inf))


def flips(curves: Curves, top: int = 1) -> Flips:
    """Return the flips of deletion curves, for the first item or the set of the first ten.

    A case whose list never changes counts with one deletion more than it has parts. Leaving such
    cases out would make some orders look better.
    """
    if curves.kind != "deletion" or top not in curves.changed:
        known = ", ".join(map(str, curves.changed)) or "none"
        raise InputError(
            f"Flips need deletion curves and a top of {known}; these are {curves.kind} curves, and "
            f"top is {top}."
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


# Declarations


def _curve_measure(
    measure: Callable[[Curves], Measure], kind: CurveKind = "deletion"
) -> Callable[..., Measure]:
    def compute(model: Explainable, batch: Tensor, explanation: Explanation) -> Measure:
        (curves,) = deletion_curves(model, batch, [explanation], kind=kind).values()
        return measure(curves)

    return compute


def _between_random_and_oracle(
    model: Explainable, batch: Tensor, explanation: Explanation
) -> Measure:
    found = deletion_curves(model, batch, [explanation, "random order", "greedy oracle"])
    return normalised_area(*found.values())


def _declare(
    name: str,
    compute: Callable[..., Measure],
    question: str,
    direction: Direction,
    range: tuple[float, float],
) -> None:
    """Declare a measure of how recommendations change without parts."""
    citation = "Baumhauer (2021)"
    spec = MeasureSpec(
        compute, question, direction, range, lambda small: small.few, citation, needs=SCORES
    )
    MEASURES.add(name, spec)


_declare(
    "deletion-area",
    _curve_measure(Curves.area_measure),
    "Do recommendations change fast when important parts are deleted?",
    "higher is better",
    (0.0, math.inf),
)
_declare(
    "deletion-area-normalised",
    _between_random_and_oracle,
    "How much do they change, from a random order (0) to a greedy oracle (1)?",
    "higher is better",
    (-math.inf, math.inf),
)
_declare(
    "deletion-shape",
    _curve_measure(Curves.shape_measure),
    "Do recommendations change with the last deletions (above 0) or with the first?",
    "neither",
    (-math.inf, 0.5),
)
_declare(
    "insertion-area",
    _curve_measure(Curves.area_measure, "insertion"),
    "Do the important parts alone restore the recommendations?",
    "lower is better",
    (0.0, math.inf),
)
_declare(
    "deletions-to-flip",
    _curve_measure(lambda curves: flips(curves).measure()),
    "How many parts must be deleted until another item is first?",
    "lower is better",
    (1.0, math.inf),
)
_declare(
    "deletions-to-flip-ten",
    _curve_measure(lambda curves: flips(curves, TOP_TEN).measure()),
    "How many parts must be deleted until another item is among the first ten?",
    "lower is better",
    (1.0, math.inf),
)
