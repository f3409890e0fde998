"""Learned subsets: training finds which experts are needed.

The first round has an expert for every small subset of the groups. Every round trains a new network
and drops the experts that are least often selected most, half of the surplus at a time, until the
budget is met. The expert that sees everything always stays, because cases that the others reject
must go somewhere.
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

MIN_SHARE = 0.05
"""An expert that comes first in a smaller share of the cases is dropped, whatever the budget."""
MAX_CANDIDATES = 256
SEPARATOR = "+"


@dataclass(frozen=True)
class Round:
    """A trained family, and how often each of its experts is selected most."""

    family: Family
    shares: tuple[float, ...]


@dataclass(frozen=True)
class LearnedFamily:
    """The remaining experts, and the rounds that led to them."""

    family: Family
    rounds: tuple[Round, ...]

    @property
    def subsets(self) -> set[frozenset[str]]:
        """The learned subsets, without the one that sees everything."""
        return {
            frozenset(one.groups) for one in self.family.subsets if not _is_top(self.family, one)
        }


def all_subsets(groups: Mapping[str, Iterable[int]], max_groups: int = 2) -> Family:
    """Return every subset of at most `max_groups` groups, and the one of all groups."""
    if max_groups < 1:
        raise InputError(f"Set max_groups to at least 1, not {max_groups}.")
    names = list(groups)
    joined = next((name for name in names if SEPARATOR in name), None)
    if joined is not None:
        raise InputError(
            f"The group '{joined}' has a '{SEPARATOR}' in its name, which joins group names in a "
            "subset. Rename the group."
        )
    sizes = [size for size in range(1, len(names) + 1) if size <= max_groups or size == len(names)]
    chosen = [some for size in sizes for some in combinations(names, size)]
    if len(chosen) > MAX_CANDIDATES:
        raise InputError(
            f"There are {len(chosen)} subsets of at most {max_groups} of {len(names)} groups, but "
            f"only {MAX_CANDIDATES} are allowed. Merge groups or lower max_groups."
        )
    return Family.of(groups, {SEPARATOR.join(some): some for some in chosen})


def learn_family(
    groups: Mapping[str, Iterable[int]],
    batches: Callable[[], Iterable[Batch]],
    rows: Tensor,
    hidden_dims: Sequence[int],
    *,
    budget: int,
    max_groups: int = 2,
    min_share: float = MIN_SHARE,
    seed: int = 0,
    learning_rate: float = LEARNING_RATE,
    target: Target = TWO_CLASSES,
    recipe: Recipe = DEFAULT,
) -> LearnedFamily:
    """Learn at most `budget` subsets of at most `max_groups` groups, besides that of all groups.

    `batches` yields the batches of a round. The selection is measured on `rows`.
    """
    if budget < 1:
        raise InputError(f"Set budget to at least 1, not {budget}.")
    if not len(rows):
        raise InputError("There are no rows to measure the selection on. Pass at least one.")
    family, rounds = all_subsets(groups, max_groups), list[Round]()
    rows = first_columns(rows, family.n_columns)
    while True:
        model = InterpretableMLP(
            family, hidden_dims, Randomness(seed).torch("init"), target=target, recipe=recipe
        )
        fit(model, batches(), learning_rate)
        rounds.append(Round(family, _shares(model, rows)))
        fewer = _drop_experts(rounds[-1], budget, min_share)
        if len(fewer) == len(family):
            return LearnedFamily(family, tuple(rounds))
        family = fewer


@torch.no_grad()
def _shares(model: InterpretableMLP, rows: Tensor) -> tuple[float, ...]:
    """Return how often each expert is selected most; the simplest one in a tie."""
    first = model.attribute(rows).argmax(dim=1)
    counts = torch.bincount(first, minlength=len(model.family))
    return tuple((counts / len(rows)).tolist())


def _drop_experts(done: Round, budget: int, min_share: float) -> Family:
    """Drop half of the surplus experts, or without a surplus those that are hardly selected."""
    family = done.family
    share = dict(zip(family.names, done.shares, strict=True))
    top = tuple(one for one in family.subsets if _is_top(family, one))
    others = sorted(set(family.subsets) - set(top), key=lambda one: (-share[one.name], one.name))
    too_many = len(others) - budget
    if too_many > 0:
        others = others[: len(others) - (too_many + 1) // 2]
    else:
        others = [one for one in others if share[one.name] >= min_share]
    return Family(family.groups, tuple(others) + top)


def _is_top(family: Family, subset: Subset) -> bool:
    return len(subset.groups) == len(family.groups)
