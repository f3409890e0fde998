"""What a recommendation owes to its history, in log-probabilities: the evidence for a reason.

For every item of a history and every target: what the target loses without the item (necessity),
and what the item alone brings to it (sufficiency). The same for pairs of items, and for all items
of the target's group compared with as many others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Final, NamedTuple

import torch
from torch import Tensor

from whence.contract import ALL, DROPPED, PAD
from whence.memory import cases_at_once, row_slices
from whence.models.additive import newest_copies
from whence.reasons.altered import candidates_of, others_at_random
from whence.reasons.groups import NO_GROUP, ItemGroups
from whence.reasons.shown import Shown
from whence.reasons.singles import SMALLEST, SingleItems

PAIRED: Final = 4
"""Pairs are made of this many items, those that bring most alone."""
LEAST_LIKED: Final = 0.25
"""Groups that a history speaks for less than for the others are this share of all."""
EQUAL: Final = 1e-4
"""Log-probabilities that differ by less are equal, whatever else is computed with them."""

BY_MODEL: Final = (
    "full",
    "marginal",
    "usual",
    "usual_in_group",
    "usual_elsewhere",
    "usual_spread",
    "group_mass",
    "group_mass_usual",
    "group_marginal",
    "group_lift",
    "group_floor",
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
    marginal: Tensor
    """`[S, U, k]`: log p(target), whatever the history."""
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
    group_marginal: Tensor
    """`[S, U, k]`: log p(any item of the group), whatever the history."""
    group_lift: Tensor
    """`[S, U, k]`: how much the history raises the items of the group on average."""
    group_floor: Tensor
    """`[S, U, k]`: how much it raises the groups that it speaks for least, all told."""
    rank: Tensor
    """`[U, k]`: from 1, by the mean score of the models, among the items not in the history."""
    rank_anyway: Tensor
    """`[U, k]`: the same whatever the history."""
    rank_without: Tensor
    """`[U, k, c]`: the same without the item."""
    candidates: Tensor
    """`[U, c]`: the items, or `PAD`."""
    lost: Tensor
    """`[S, U, k, c]`: what the target loses without the item."""
    alone: Tensor
    """`[S, U, k, c]`: what the item alone brings, above the usual."""
    alone_beaten: Tensor
    """`[S, U, k, c]`: the share of other items of the catalog that alone bring less."""
    alone_place: Tensor
    """`[S, U, k, c]`: the share of other items of the catalog to which the item brings more."""
    pairs: Tensor
    """`[U, k, p, 2]`: places of candidates; equal places are no pair."""
    pair_lost: Tensor
    """`[S, U, k, p]`."""
    pair_alone: Tensor
    """`[S, U, k, p]`."""
    pair_rank_without: Tensor
    """`[U, k, p]`: the target's rank without both."""
    group: Tensor
    """`[U, k]`: the target's group, or `NO_GROUP`."""
    in_group: Tensor
    """Bool `[U, k, c]`: the candidates of the group but for the strongest item."""
    group_share: Tensor
    """`[U, k]`: the share of all events that are of the group."""
    group_lost: Tensor
    """`[S, U, k]`: what the target loses without its group."""
    group_rank_without: Tensor
    """`[U, k]`: its rank without its group."""
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

    def of_models(self, chosen: Sequence[int]) -> Figures:
        """Return the figures of some of the models."""
        each = {one.name: getattr(self, one.name) for one in fields(Figures)}
        some = {name: values[list(chosen)] for name, values in each.items() if name in BY_MODEL}
        return Figures(**{**each, **some})


class _Asked(NamedTuple):
    """What the figures are asked for."""

    shown: Shown
    singles: Sequence[SingleItems]
    groups: ItemGroups | None
    candidates: Tensor
    group: Tensor
    """`[U, k]`."""

    @property
    def targets(self) -> Tensor:
        return self.shown.targets

    @property
    def histories(self) -> Tensor:
        return self.shown.histories


@torch.no_grad()
def find_figures(
    shown: Shown, singles: Sequence[SingleItems], groups: ItemGroups | None
) -> Figures:
    """Return the figures of the targets; `singles` are those of each model."""
    histories, targets = shown.histories, shown.targets
    candidates = candidates_of(histories, min(shown.slots, histories.shape[1]))
    group = torch.full_like(targets, NO_GROUP)
    in_group = torch.zeros((*targets.shape, histories.shape[1]), dtype=torch.bool).to(group.device)
    if groups is not None:
        group = groups.of_targets(histories, targets)
        in_group = groups.contains(group[:, :, None], histories[:, None, :])
    asked = _Asked(shown, singles, groups, candidates, group)
    of_history = _of_histories(asked)
    full = of_history["full"]
    usual = _usual(asked)
    real = (candidates != PAD)[:, None, :]
    without = shown.every_target(histories[:, None, :] != candidates[:, :, None])
    lost = (full[..., None] - without.log_probability).where(real, 0.0)
    of_items = {name: values.where(real, 0.0) for name, values in _of_single_items(asked).items()}
    # A taste is more than one item, so the strongest item is on neither side.
    strength = (lost + of_items["alone"]).mean(dim=0)
    strongest = candidates.gather(1, strength.argmax(dim=2))  # [U, k]
    apart = histories[:, None, :] != strongest[:, :, None]
    in_group = in_group & apart
    slots = candidates.shape[1]
    return Figures(
        **of_history,
        **usual,
        rank_anyway=_rank_anyway(asked),
        candidates=candidates,
        rank_without=without.rank.where(real, of_history["rank"][..., None]),
        lost=lost,
        **of_items,
        group=group,
        in_group=in_group[:, :, -slots:] & (candidates != PAD)[:, None, :],
        group_share=torch.zeros_like(full[0]) if groups is None else groups.shares(group),
        **_of_pairs(asked, of_history, usual["usual"], of_items["alone"]),
        **_of_groups(asked, in_group, apart, of_history, usual["usual"]),
    )


def _rank_anyway(asked: _Asked) -> Tensor:
    """Return the ranks `[U, k]` of the targets by what the models expect of everyone."""
    users = len(asked.targets)
    expected = [one.marginal.expand(users, -1) for one in asked.singles]
    return asked.shown.ranks(slice(0, users), expected)


def _of_histories(asked: _Asked) -> dict[str, Tensor]:
    """Return what whole histories bring to the targets and to their groups."""
    names = ("full", "group_mass", "group_lift", "group_floor")
    found: dict[str, list[Tensor]] = {name: [] for name in names}
    ranks = []
    for some, scores in asked.shown.scores(asked.shown.whole()):
        part = [one.log_softmax(dim=1) for one in scores]
        targets, group = asked.targets[some], asked.group[some]
        ranks.append(asked.shown.ranks(some, scores))
        found["full"].append(torch.stack([one.gather(1, targets) for one in part]))
        for name, values in _of_group_mass(asked, part, group).items():
            found[name].append(values)
    each = {name: torch.cat(values, dim=1) for name, values in found.items()}
    return {"rank": torch.cat(ranks), **each}


def _of_group_mass(asked: _Asked, each: list[Tensor], group: Tensor) -> dict[str, Tensor]:
    """Return the probability of each target's group, and how much the history raises its items."""
    if asked.groups is None:
        nothing = torch.zeros(len(each), *group.shape, dtype=each[0].dtype, device=group.device)
        return {"group_mass": nothing, "group_lift": nothing, "group_floor": nothing}
    member = asked.groups.member.T.to(each[0].dtype)  # [items, groups]
    sizes, place = member.sum(dim=0).clamp(min=1), group.clamp(min=0)
    mass, lift, floor = [], [], []
    for log_probability, single in zip(each, asked.singles, strict=True):
        of_groups = (log_probability.exp() @ member).clamp(min=SMALLEST).log()
        raised = (log_probability - single.mean) @ member / sizes
        mass.append(of_groups.gather(1, place).where(group != NO_GROUP, 0.0))
        lift.append(raised.gather(1, place).where(group != NO_GROUP, 0.0))
        lowest = (of_groups - single.marginal_mass(asked.groups)).quantile(LEAST_LIKED, dim=1)
        floor.append(lowest[:, None].expand_as(lift[-1]))
    each_group = {"group_mass": mass, "group_lift": lift, "group_floor": floor}
    return {name: torch.stack(values) for name, values in each_group.items()}


def _of_single_items(asked: _Asked) -> dict[str, Tensor]:
    """Return what each candidate alone brings to the targets, beside other items."""
    usual = torch.stack([one.mean[asked.targets] for one in asked.singles])
    own = torch.empty(*usual.shape, asked.candidates.shape[1], dtype=usual.dtype).to(usual.device)
    place = torch.empty_like(own)
    if asked.shown.removal == DROPPED and all(one.are_tabulated for one in asked.singles):
        item = asked.candidates.clamp(min=0)
        for model, single in enumerate(asked.singles):
            mine = single.lift[item[:, None, :], asked.targets[:, :, None]]
            above = (mine + EQUAL).transpose(1, 2).contiguous()  # [U, c, k]
            lower = torch.searchsorted(single.lift_in_order[item], above, right=True)
            own[model] = mine
            place[model] = 1 - lower.transpose(1, 2).to(own.dtype) / len(single.items)
    else:
        _ask_each_alone(asked, own, place)
    return {"alone": own, "alone_beaten": _beaten(asked, own, usual), "alone_place": place}


def _ask_each_alone(asked: _Asked, own: Tensor, place: Tensor) -> None:
    """Find what each candidate alone brings, and to what share of other items it brings more."""
    users, slots = asked.candidates.shape
    items = len(asked.singles[0].mean)
    for some in row_slices(users, max(1, cases_at_once(slots * items, own.is_cuda))):
        part = asked.shown[some].alone(asked.candidates[some])
        targets = asked.targets[some, None, :].expand(-1, slots, -1)
        for model, (scorer, single) in enumerate(
            zip(asked.shown.models, asked.singles, strict=True)
        ):
            each = scorer.score(part.histories, ALL, present=part.present).log_softmax(dim=1)
            lift = (each - single.mean).view(-1, slots, items)
            own[model, some] = lift.gather(2, targets).transpose(1, 2)
            referred = lift[:, :, single.items].sort(dim=2).values
            above = (own[model, some] + EQUAL).transpose(1, 2).contiguous()
            lower = torch.searchsorted(referred, above, right=True).transpose(1, 2)
            place[model, some] = 1 - lower.to(own.dtype) / len(single.items)


def _beaten(asked: _Asked, own: Tensor, usual: Tensor) -> Tensor:
    """Return the share of other items that alone bring less than the candidates."""
    found = []
    for mine, mean, single in zip(own, usual, asked.singles, strict=True):
        others = single.in_order[asked.targets]  # [U, k, R]
        below = torch.searchsorted(others, (mine + mean[..., None] + EQUAL).contiguous())
        found.append(below.to(own.dtype) / others.shape[2])
    return torch.stack(found)


def _usual(asked: _Asked) -> dict[str, Tensor]:
    """Return what the targets usually get: everywhere, in their group and elsewhere."""
    items, targets, group = asked.singles[0].items, asked.targets, asked.group
    shape = (*targets.shape, len(items))
    inside = torch.zeros(shape, dtype=torch.bool, device=targets.device)
    of_group = {
        name: torch.zeros(len(asked.singles), *targets.shape, device=targets.device)
        for name in ("group_mass_usual", "group_marginal")
    }
    if asked.groups is not None:
        groups, place, none = asked.groups, group.clamp(min=0), group == NO_GROUP
        inside = groups.contains(group[:, :, None], items.expand(shape))
        of_group = {
            "group_mass_usual": torch.stack([one.mass(groups)[place] for one in asked.singles]),
            "group_marginal": torch.stack(
                [one.marginal_mass(groups)[place] for one in asked.singles]
            ),
        }
        of_group = {name: values.masked_fill(none, 0.0) for name, values in of_group.items()}
    other = items != targets[:, :, None]
    each = [one.of_targets(targets) for one in asked.singles]
    return {
        "marginal": torch.stack([one.marginal[targets] for one in asked.singles]),
        "usual": torch.stack([one.mean[targets] for one in asked.singles]),
        "usual_in_group": torch.stack([_mean_where(one, inside & other) for one in each]),
        "usual_elsewhere": torch.stack([_mean_where(one, ~inside & other) for one in each]),
        "usual_spread": torch.stack([one.spread[targets] for one in asked.singles]),
        **of_group,
    }


def _mean_where(values: Tensor, asked: Tensor) -> Tensor:
    """Return the mean of the values `[U, k, R]` that are asked for, or of all if none is."""
    asked = asked | ~asked.any(dim=2, keepdim=True)
    return (values * asked).sum(dim=2) / asked.sum(dim=2)


def _of_pairs(
    asked: _Asked, of_history: dict[str, Tensor], usual: Tensor, alone: Tensor
) -> dict[str, Tensor]:
    """Return the pairs of the items that bring most alone, and their figures.

    A network has seen the partners of a pair with what they cause, so each alone brings it, too.
    """
    histories, candidates = asked.histories, asked.candidates
    users, k, slots = alone.shape[1:]
    there = (candidates != PAD)[:, None, :]
    strength = alone.mean(dim=0).where(there, -torch.inf)
    best = strength.topk(min(PAIRED, slots), dim=2).indices.sort(dim=2).values  # [U, k, m]
    first, second = _places(best.shape[2], best.device)
    pairs = torch.stack((best[..., first], best[..., second]), dim=3)  # older, newer
    valid = there.expand(-1, k, -1).gather(2, pairs.flatten(2)).view(pairs.shape).all(dim=3)
    valid &= pairs[..., 0] != pairs[..., 1]
    pairs = pairs.where(valid[..., None], 0)
    sets = candidates.gather(1, pairs.flatten(1)).view(users, k, -1, 2, 1)
    members = (histories[:, None, None, None, :] == sets).any(dim=3)  # [U, k, p, w]
    alone_kept = members & newest_copies(histories)[:, None, None, :]
    left = asked.shown.own_target(~members)
    brought = asked.shown.own_target(alone_kept, ranked=False).log_probability
    full, rank = of_history["full"], of_history["rank"]
    return {
        "pairs": pairs,
        "pair_lost": (full[..., None] - left.log_probability).where(valid, 0.0),
        "pair_rank_without": left.rank.where(valid, rank[..., None]),
        "pair_alone": (brought - usual[..., None]).where(valid, 0.0),
    }


def _of_groups(
    asked: _Asked,
    groups: Tensor,
    apart: Tensor,
    of_history: dict[str, Tensor],
    usual: Tensor,
) -> dict[str, Tensor]:
    """Return the figures of each target's group `[U, k, w]`; 0 if the history has none of it."""
    histories = asked.histories
    others = others_at_random(histories, groups, apart)
    kept = torch.stack((~groups, ~others, groups), dim=2)  # [U, k, 3, w]
    found = asked.shown.own_target(kept)
    without, without_others, alone = found.log_probability.unbind(dim=3)
    full, rank = of_history["full"], of_history["rank"]
    any_of_it = (groups & (histories != PAD)[:, None, :]).any(dim=2)
    return {
        "group_lost": (full - without).where(any_of_it, 0.0),
        "group_rank_without": found.rank[..., 0].where(any_of_it, rank),
        "others_lost": (full - without_others).where(any_of_it, 0.0),
        "group_alone": (alone - usual).where(any_of_it, 0.0),
    }


def _places(count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the first and the second place of every pair of `count` places."""
    each = list(combinations(range(count), 2)) or [(0, 0)]
    found = torch.tensor(each, device=device)
    return found[:, 0], found[:, 1]
