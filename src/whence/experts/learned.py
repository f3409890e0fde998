"""Learned subsets: training itself finds which experts are needed.

It begins with an expert for every small subset of the groups. In every round a network is trained
anew, and the experts that are least often the one most selected leave, half of those too many at a
time, until no more are left than the budget allows. The expert that sees everything stays: what the
others leave over must have somewhere to go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from whence.errors import InputError
from whence.experts.family import Family, Subset
from whence.experts.linear import first_columns
from whence.experts.mlp import TWO_CLASSES, InterpretableMLP
from whence.experts.selection import DEFAULT, Recipe
from whence.experts.targets import Target
from whence.experts.training import LEARNING_RATE, Batch, fit
from whence.randomness import Randomness

LEAST = 0.05
"""An expert that is first in a smaller share of the cases leaves, whatever the budget allows."""
MOST_CANDIDATES = 256
JOINED = "+"


@dataclass(frozen=True)
class Round:
    """A family that was trained, and how often each of its experts was the one most selected."""

    family: Family
    shares: tuple[float, ...]


@dataclass(frozen=True)
class LearnedFamily:
    """What is left, and how it came about."""

    family: Family
    rounds: tuple[Round, ...]

    @property
    def found(self) -> set[frozenset[str]]:
        """The subsets that training has chosen, all but the one that sees everything."""
        return {
            frozenset(one.groups) for one in self.family.subsets if not _is_top(self.family, one)
        }


def all_subsets(groups: Mapping[str, Iterable[int]], most: int = 2) -> Family:
    """Every subset of at most so many groups, all pairs by default, and the one of all groups."""
    if most < 1:
        raise InputError(f"Subsets have at least one group, not {most}.")
    names = list(groups)
    joined = next((name for name in names if JOINED in name), None)
    if joined is not None:
        raise InputError(
            f"The group '{joined}' has a '{JOINED}' in its name, which joins the names of groups "
            "in a subset; give it another name."
        )
    sizes = [size for size in range(1, len(names) + 1) if size <= most or size == len(names)]
    chosen = [some for size in sizes for some in combinations(names, size)]
    if len(chosen) > MOST_CANDIDATES:
        raise InputError(
            f"There are {len(chosen)} subsets of at most {most} of {len(names)} groups, more than "
            f"{MOST_CANDIDATES}; join some groups or allow fewer in a subset."
        )
    return Family.of(groups, {JOINED.join(some): some for some in chosen})


def learn_family(
    groups: Mapping[str, Iterable[int]],
    batches: Callable[[], Iterable[Batch]],
    rows: Tensor,
    hidden_dims: Sequence[int],
    *,
    budget: int,
    most: int = 2,
    least: float = LEAST,
    seed: int = 0,
    learning_rate: float = LEARNING_RATE,
    target: Target = TWO_CLASSES,
    recipe: Recipe = DEFAULT,
) -> LearnedFamily:
    """Of subsets of at most `most` groups, at most `budget` besides the one of all groups.

    `batches` gives every round its batches, and on `rows` it is looked who is selected.
    """
    if budget < 1:
        raise InputError(f"A budget allows at least one expert, not {budget}.")
    if not len(rows):
        raise InputError("There are no rows on which to look who is selected; give some.")
    family, rounds = all_subsets(groups, most), list[Round]()
    rows = first_columns(rows, family.n_columns)
    while True:
        model = InterpretableMLP(
            family, hidden_dims, Randomness(seed).torch("init"), target=target, recipe=recipe
        )
        fit(model, batches(), learning_rate)
        rounds.append(Round(family, _shares(model, rows)))
        fewer = _without_the_least(rounds[-1], budget, least)
        if len(fewer) == len(family):
            return LearnedFamily(family, tuple(rounds))
        family = fewer


@torch.no_grad()
def _shares(model: InterpretableMLP, rows: Tensor) -> tuple[float, ...]:
    """Of the cases in which each expert is most selected; of equals the simplest."""
    first = model.attribute(rows).argmax(dim=1)
    counts = torch.bincount(first, minlength=len(model.family))
    return tuple((counts / len(rows)).tolist())


def _without_the_least(done: Round, budget: int, least: float) -> Family:
    """Half of those too many leave; where none are, those that are hardly selected."""
    family = done.family
    share = dict(zip(family.names, done.shares, strict=True))
    top = tuple(one for one in family.subsets if _is_top(family, one))
    others = sorted(set(family.subsets) - set(top), key=lambda one: (-share[one.name], one.name))
    too_many = len(others) - budget
    if too_many > 0:
        others = others[: len(others) - (too_many + 1) // 2]
    else:
        others = [one for one in others if share[one.name] >= least]
    return Family(family.groups, tuple(others) + top)


def _is_top(family: Family, subset: Subset) -> bool:
    return len(subset.groups) == len(family.groups)
