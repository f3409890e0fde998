"""What a recommendation owes to its history, in log-probabilities: the evidence for a reason.

For every item of a history and every target: what the target loses without the item (necessity),
and what the item alone brings to it (sufficiency). The same for pairs of items, and for all items
of the target's group compared with as many others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import combinations
from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.contract import ALL, PAD
from whence.devices import device_of
from whence.memory import cases_at_once, row_slices
from whence.models.base import CaseReader
from whence.reasons.altered import (
    candidates_of,
    keeping,
    others_at_random,
    without_each,
    without_sets,
)
from whence.reasons.groups import NO_GROUP, ItemGroups

REFERENCES: Final = 256
"""How many single items make up the average of what single items bring."""
REFERENCE_SCORES: Final = 2**24
"""The largest number of log-probabilities that are kept of single items."""
PAIRED: Final = 40
"""Pairs are made of items in this many of the newest slots."""
CHECKED_PAIRS: Final = 6
"""How many pairs of a target are left out together, those that bring most beyond either item."""

EQUAL: Final = 1e-4
"""Log-probabilities that differ by less are equal, whatever else is computed with them."""
SMALLEST: Final = 1e-30
"""A probability of a group whose logarithm is finite."""

BY_MODEL: Final = (
    "full",
    "usual",
    "usual_in_group",
    "usual_elsewhere",
    "usual_spread",
    "group_mass",
    "group_mass_usual",
    "group_lift",
    "lost",
    "alone",
    "alone_beaten",
    "alone_place",
    "pair_lost",
    "pair_alone",
    "group_lost",
    "others_lost",
    "group_alone",
)
"""The figures whose first dimension is that of the models."""


@dataclass(frozen=True, eq=False)
class Figures:
    """For U users, k targets, c candidate items and p pairs, by each of S models. In nats."""

    full: Tensor
    """`[S, U, k]`: log p(target | history)."""
    usual: Tensor
    """`[S, U, k]`: the mean of log p(target | one item), over items of the catalog."""
    usual_in_group: Tensor
    """`[S, U, k]`: the same over items of the target's group."""
    usual_elsewhere: Tensor
    """`[S, U, k]`: the same over all other items."""
    usual_spread: Tensor
    """`[S, U, k]`: the standard deviation of log p(target | one item)."""
    group_mass: Tensor
    """`[S, U, k]`: log p(any item of the target's group | history)."""
    group_mass_usual: Tensor
    """`[S, U, k]`: log of the mean of p(any item of the group | one item of another group)."""
    group_lift: Tensor
    """`[S, U, k]`: how much the history raises the items of the group on average."""
    candidates: Tensor
    """`[U, c]`: the items, or `PAD`."""
    lost: Tensor
    """`[S, U, k, c]`: what the target loses without the item."""
    alone: Tensor
    """`[S, U, k, c]`: what the item alone brings, above the usual."""
    alone_beaten: Tensor
    """`[S, U, k, c]`: the share of other items of the catalog that alone bring less."""
    alone_place: Tensor
    """`[S, U, k, c]`: to how many items of the catalog the item alone brings more."""
    pairs: Tensor
    """`[U, k, p, 2]`: places of candidates; equal places are no pair."""
    pair_lost: Tensor
    """`[S, U, k, p]`."""
    pair_alone: Tensor
    """`[S, U, k, p]`."""
    group: Tensor
    """`[U, k]`: the target's group, or `NO_GROUP`."""
    in_group: Tensor
    """Bool `[U, k, c]`: the candidates of the group but for the strongest item."""
    group_lost: Tensor
    """`[S, U, k]`: what the target loses without its group."""
    others_lost: Tensor
    """`[S, U, k]`: what it loses without as many other items."""
    group_alone: Tensor
    """`[S, U, k]`: what its group alone brings, above the usual."""

    @staticmethod
    def joined(each: Sequence[Figures]) -> Figures:
        """Return the figures of several groups of users."""
        return Figures(
            **{
                one.name: torch.cat(
                    [getattr(own, one.name) for own in each], dim=int(one.name in BY_MODEL)
                )
                for one in fields(Figures)
            }
        )


@torch.no_grad()
def log_probabilities(model: CaseReader, histories: Tensor, targets: Tensor) -> Tensor:
    """Return `[R, k]`: the log-probability of targets `[R, k]` among all items, for `[R, n]`."""
    found = []
    at_once = max(1, 4 * cases_at_once(_item_count(model, histories), histories.is_cuda))
    for rows in row_slices(len(histories), at_once):
        scores = model.score(histories[rows], ALL)
        own = scores.gather(1, targets[rows])
        found.append(own - scores.logsumexp(dim=1, keepdim=True))
    return torch.cat(found)


def _item_count(model: CaseReader, histories: Tensor) -> int:
    return int(model.score(histories[:1], ALL).shape[1])


@dataclass(frozen=True, eq=False)
class SingleItems:
    """What a model expects after single items: the usual, which evidence is compared with."""

    items: Tensor
    """`[R]`: items spread over the catalog."""
    log_probability: Tensor
    """`[R, items]`."""

    @staticmethod
    @torch.no_grad()
    def of(model: CaseReader, item_count: int) -> SingleItems:
        """Ask a model."""
        device = device_of(model)
        count = min(REFERENCES, max(1, REFERENCE_SCORES // item_count))
        each = np.unique(np.linspace(0, item_count - 1, count).round().astype(np.int64))
        items = torch.from_numpy(each).to(device)
        found = [
            model.score(items[rows, None], ALL).log_softmax(dim=1)
            for rows in row_slices(len(items), cases_at_once(item_count, items.is_cuda))
        ]
        return SingleItems(items, torch.cat(found))

    @cached_property
    def mean(self) -> Tensor:
        """Return `[items]`."""
        return self.log_probability.mean(dim=0)

    def of_targets(self, targets: Tensor) -> Tensor:
        """Return `[U, k, R]`: what each item brings to the targets `[U, k]`."""
        return self.log_probability.T[targets]

    def mass(self, groups: ItemGroups) -> Tensor:
        """Return `[groups]`: log of the mean of p(group | one item), over items of other groups."""
        member = groups.member.to(self.log_probability.dtype)
        each = self.log_probability.exp() @ member.T  # [R, groups]
        outside = (~groups.member.T[self.items]).to(each.dtype)
        mean = (each * outside).sum(dim=0) / outside.sum(dim=0).clamp(min=1)
        return mean.clamp(min=SMALLEST).log()


@torch.no_grad()
def find_figures(
    models: Sequence[CaseReader],
    singles: Sequence[SingleItems],
    histories: Tensor,
    targets: Tensor,
    groups: ItemGroups | None,
    slots: int,
) -> Figures:
    """Return the figures of targets `[U, k]` for histories `[U, w]`, by each model.

    `singles` are those of each model.
    """
    slots = min(slots, histories.shape[1])
    candidates = candidates_of(histories, slots)
    shown = _Shown(models, targets)
    group = torch.full_like(targets, NO_GROUP)
    in_group = torch.zeros((*targets.shape, histories.shape[1]), dtype=torch.bool).to(group.device)
    if groups is not None:
        group = groups.of_targets(histories, targets)
        in_group = groups.contains(group[:, :, None], histories[:, None, :])
    of_history = _of_histories(models, singles, histories[:, -slots:], targets, group, groups)
    full = of_history["full"]
    base = _usual(singles, targets, group, groups)
    usual = base["usual"]
    real = (candidates != PAD)[None, :, None, :]
    lost = (full[..., None] - shown(without_each(histories, candidates, slots))).where(real, 0.0)
    of_items = {
        name: values.where(real, 0.0)
        for name, values in _of_single_items(models, singles, candidates, targets).items()
    }
    # A taste is more than one item, so the strongest item is on neither side.
    strength = (lost + of_items["alone"]).mean(dim=0)
    strongest = candidates.gather(1, strength.argmax(dim=2))  # [U, k]
    apart = histories[:, None, :] != strongest[:, :, None]
    in_group = in_group & apart
    return Figures(
        **of_history,
        **base,
        candidates=candidates,
        lost=lost,
        **of_items,
        group=group,
        in_group=in_group[:, :, -slots:] & (candidates != PAD)[:, None, :],
        **_of_pairs(shown, histories, candidates, full, usual, of_items["alone"]),
        **_of_groups(shown, histories, in_group, apart, full, usual, slots),
    )


def _of_histories(
    models: Sequence[CaseReader],
    singles: Sequence[SingleItems],
    histories: Tensor,
    targets: Tensor,
    group: Tensor,
    groups: ItemGroups | None,
) -> dict[str, Tensor]:
    """Return what whole histories `[U, n]` bring to the targets and to their groups."""
    found = []
    for model, single in zip(models, singles, strict=True):
        log_probability = model.score(histories, ALL).log_softmax(dim=1)
        own = log_probability.gather(1, targets)
        if groups is None:
            found.append((own, *[torch.zeros_like(own)] * 3))
            continue
        member = groups.member.T.to(own.dtype)  # [items, groups]
        place = group.clamp(min=0)
        mass = (log_probability.exp() @ member).clamp(min=SMALLEST).log().gather(1, place)
        lift = (log_probability - single.mean) @ member / member.sum(dim=0).clamp(min=1)
        each = (mass, single.mass(groups)[place], lift.gather(1, place))
        found.append((own, *(one.where(group != NO_GROUP, 0.0) for one in each)))
    names = ("full", "group_mass", "group_mass_usual", "group_lift")
    return dict(zip(names, map(torch.stack, zip(*found, strict=True)), strict=True))


def _of_single_items(
    models: Sequence[CaseReader],
    singles: Sequence[SingleItems],
    candidates: Tensor,
    targets: Tensor,
) -> dict[str, Tensor]:
    """Return what each candidate `[U, c]` alone brings to the targets, beside other items."""
    (users, slots), k = candidates.shape, targets.shape[1]
    found: dict[str, list[Tensor]] = {"alone": [], "alone_beaten": [], "alone_place": []}
    for model, single in zip(models, singles, strict=True):
        others = single.of_targets(targets).sort(dim=2).values  # [U, k, R]
        usual = single.mean[targets]
        own = torch.empty(users, k, slots, dtype=usual.dtype, device=usual.device)
        place = torch.empty_like(own)
        at_once = max(1, cases_at_once(slots * len(single.mean), own.is_cuda))
        for rows in row_slices(users, at_once):
            each = model.score(candidates[rows].reshape(-1, 1), ALL).log_softmax(dim=1)
            lift = (each - single.mean).view(-1, slots, len(single.mean))
            for target in range(k):  # [U, k, c, items] would be large
                asked = targets[rows, target, None, None].expand(-1, slots, 1)
                mine = lift.gather(2, asked)
                own[rows, target] = mine[..., 0]
                place[rows, target] = (lift > mine + EQUAL).sum(dim=2).to(own.dtype)
        below = torch.searchsorted(others, (own + usual[..., None] + EQUAL).contiguous())
        found["alone"].append(own)
        found["alone_beaten"].append(below.to(own.dtype) / others.shape[2])
        found["alone_place"].append(place)
    return {name: torch.stack(values) for name, values in found.items()}


def _usual(
    singles: Sequence[SingleItems], targets: Tensor, group: Tensor, groups: ItemGroups | None
) -> dict[str, Tensor]:
    """Return what the targets `[U, k]` usually get: everywhere, in their group and elsewhere."""
    (items, *_) = (one.items for one in singles)
    shape = (*targets.shape, len(items))
    inside = torch.zeros(shape, dtype=torch.bool, device=targets.device)
    if groups is not None:
        inside = groups.contains(group[:, :, None], items.expand(shape))
    other = items != targets[:, :, None]
    each = [one.of_targets(targets) for one in singles]
    return {
        "usual": torch.stack([one.mean(dim=2) for one in each]),
        "usual_in_group": torch.stack([_mean_where(one, inside & other) for one in each]),
        "usual_elsewhere": torch.stack([_mean_where(one, ~inside & other) for one in each]),
        "usual_spread": torch.stack([one.std(dim=2, correction=0) for one in each]),
    }


def _mean_where(values: Tensor, asked: Tensor) -> Tensor:
    """Return the mean of the values `[U, k, R]` that are asked for, or of all if none is."""
    asked = asked | ~asked.any(dim=2, keepdim=True)
    return (values * asked).sum(dim=2) / asked.sum(dim=2)


def _of_pairs(
    shown: _Shown,
    histories: Tensor,
    candidates: Tensor,
    full: Tensor,
    base: Tensor,
    alone: Tensor,
) -> dict[str, Tensor]:
    """Return the pairs that bring most beyond either item, and their figures."""
    (users, slots), k = candidates.shape, full.shape[2]
    first, second = _places(slots, histories.device)
    both = torch.stack((candidates[:, first], candidates[:, second]), dim=2)  # older, newer
    there = (both != PAD).all(dim=2)
    brought = shown(both) - base[..., None]
    larger = torch.maximum(alone[..., first], alone[..., second])
    beyond = (brought - larger).mean(dim=0).where(there[:, None, :], -torch.inf)
    best = beyond.topk(min(CHECKED_PAIRS, beyond.shape[2]), dim=2).indices  # [U, k, p]
    valid = there[:, None, :].expand(-1, k, -1).gather(2, best)
    pairs = torch.stack((first[best], second[best]), dim=3).where(valid[..., None], 0)
    sets = candidates.gather(1, pairs.flatten(1)).reshape(users, -1, 2)
    left = shown.own(without_sets(histories, sets, slots))
    chosen = brought.gather(3, best.expand(len(full), -1, -1, -1))
    return {
        "pairs": pairs,
        "pair_lost": (full[..., None] - left).where(valid, 0.0),
        "pair_alone": chosen.where(valid, 0.0),
    }


def _of_groups(
    shown: _Shown,
    histories: Tensor,
    groups: Tensor,
    apart: Tensor,
    full: Tensor,
    base: Tensor,
    slots: int,
) -> dict[str, Tensor]:
    """Return the figures of each target's group `[U, k, w]`; 0 if the history has none of it."""
    others = others_at_random(histories, groups, apart)
    variants = torch.stack((~groups, ~others, groups), dim=2)  # [U, k, 3, w]
    rows = keeping(histories[:, None, None, :], variants, slots).flatten(1, 2)
    without, without_others, alone = shown.own(rows).unbind(dim=3)
    any_of_it = (groups & (histories != PAD)[:, None, :]).any(dim=2)
    return {
        "group_lost": (full - without).where(any_of_it, 0.0),
        "others_lost": (full - without_others).where(any_of_it, 0.0),
        "group_alone": (alone - base).where(any_of_it, 0.0),
    }


def _places(slots: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the older and the newer place of every pair of the newest places."""
    first = max(0, slots - PAIRED)
    each = list(combinations(range(first, slots), 2)) or [(0, 0)]
    found = torch.tensor(each, device=device)
    return found[:, 0], found[:, 1]


class _Shown:
    """Log-probabilities of the targets `[U, k]` by each model, if users had altered histories."""

    def __init__(self, models: Sequence[CaseReader], targets: Tensor) -> None:
        self.models, self.targets = models, targets

    def __call__(self, variants: Tensor) -> Tensor:
        """Return `[S, U, k, v]`: every target for every history `[U, v, n]`."""
        users, count, _ = variants.shape
        found = self._of_rows(variants, self.targets.repeat_interleave(count, dim=0))
        return found.view(len(found), users, count, -1).transpose(2, 3)

    def own(self, variants: Tensor) -> Tensor:
        """Return `[S, U, k, v]`: each target for its own histories `[U, k · v, n]`."""
        users, k = self.targets.shape
        count = variants.shape[1] // k
        targets = self.targets.repeat_interleave(count, dim=1).reshape(-1, 1)
        return self._of_rows(variants, targets).view(-1, users, k, count)

    def _of_rows(self, variants: Tensor, targets: Tensor) -> Tensor:
        rows = variants.flatten(0, 1)
        return torch.stack([log_probabilities(model, rows, targets) for model in self.models])
