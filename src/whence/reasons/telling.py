"""Turns what was found about one user's recommendations into reasons in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Bools, Floats, Ints, Ints32
from whence.contract import DROPPED, PAD
from whence.data.catalog import Catalog
from whence.reasons.checks import Reported, checks_of, finite
from whence.reasons.features import agreement_of, mean_of_others
from whence.reasons.groups import NO_GROUP, ItemGroups
from whence.reasons.judgement import RECENT_EVENTS as RECENT_EVENTS
from whence.reasons.judgement import Kind
from whence.reasons.reason import KindName, Leaving, Reason, Support, Taste, Together, listed
from whence.reasons.reasoner import Found
from whence.reasons.smallest import SmallestSet

EXAMPLES: Final = 2
"""How many items stand for a group without a name."""
NAMES: Final[dict[Kind, KindName]] = {
    Kind.ITEM: "item",
    Kind.SET: "set",
    Kind.TASTE: "taste",
    Kind.POPULARITY: "popularity",
    Kind.NONE: "none",
}


@dataclass(frozen=True, eq=False)
class Asked:
    """Whose recommendations are explained, and in which words."""

    items: Ints32
    """All items of the history, oldest first."""
    ratings: Floats | None
    catalog: Catalog
    verb: str
    groups: ItemGroups | None
    sure: float
    calibrator: str
    removal: str = DROPPED
    low: Bools | None = None
    """Which events of the history were rated low; they stand for no taste."""


def tell(asked: Asked, found: Found, targets: Ints) -> list[Reason]:
    """Return the reasons of the targets `[k]` of one user, for whom `found` is."""
    teller = _Teller(asked, found)
    return [teller.reason(place, int(target)) for place, target in enumerate(targets)]


def leaving(catalog: Catalog, found: SmallestSet | None, list_size: int) -> Leaving | None:
    """Return the smallest set in words."""
    if found is None:
        return None
    return Leaving(
        tuple(catalog.raw_ids(found.items)),
        tuple(catalog.labels(found.items)),
        found.rank_without,
        list_size,
        found.proved,
    )


@dataclass(frozen=True, eq=False)
class _Teller:
    """The figures of one user, and how to say them."""

    asked: Asked
    found: Found

    @cached_property
    def _items(self) -> Ints:
        """Return `[c]`: the candidates, `PAD` where there is none."""
        return self.found.figures.candidates[0].cpu().numpy()

    @cached_property
    def _newest_first(self) -> list[int]:
        """Return the places of the candidates."""
        return [int(one) for one in np.flatnonzero(self._items != PAD)[::-1]]

    @cached_property
    def _names(self) -> dict[int, tuple[Any, str]]:
        """Return the raw id and the title of the candidates, by place."""
        items = self._items[self._newest_first]
        catalog = self.asked.catalog
        named = zip(catalog.raw_ids(items), catalog.labels(items), strict=True)
        return dict(zip(self._newest_first, named, strict=True))

    @cached_property
    def _ratings(self) -> dict[int, float]:
        """Return the newest rating of each item."""
        if self.asked.ratings is None:
            return {}
        return dict(zip(self.asked.items.tolist(), self.asked.ratings.tolist(), strict=True))

    @cached_property
    def _supports(self) -> list[list[Support]]:
        """Return the figures of each candidate, newest first, for each target."""
        figures, beliefs = self.found.figures, self.found.beliefs
        known = (figures.candidates != PAD)[:, None, :].expand(figures.lost.shape[1:])
        lost = figures.lost.mean(dim=0)
        columns = [
            _share(lost),
            figures.alone.mean(dim=0).exp(),
            (lost - mean_of_others(lost)).exp(),
            agreement_of(figures.lost, known),
            beliefs.items,
            figures.rank_without,
        ]
        # A stranger's weights can give numbers without bounds.
        each = [one[0].double().nan_to_num(0.0, 1e300, -1e300).tolist() for one in columns]
        ranks = figures.rank[0].tolist()
        found = []
        for target, rows in enumerate(zip(*each, strict=True)):
            of_places = list(zip(*rows, strict=True))
            found.append(
                [
                    self._support(place, of_places[place], ranks[target])
                    for place in self._newest_first
                ]
            )
        return found

    def _support(self, place: int, values: tuple[float, ...], rank: int) -> Support:
        lost, alone, specific, agreement, confidence, without = values
        models, _, targets, _ = self.found.figures.lost.shape
        raw, label = self._names[place]
        return Support(
            raw,
            label,
            lost,
            alone,
            specific if targets > 1 else None,
            agreement if models > 1 else None,
            confidence,
            rank,
            int(without),
            self._ratings.get(int(self._items[place])),
        )

    def reason(self, target: int, item: int) -> Reason:
        """Return the reason of a target, by its place in the list."""
        judgement = self.found.judgement
        kind, likeliest, place, disliked = (
            int(one[0, target])
            for one in (judgement.kind, judgement.likeliest, judgement.place, judgement.disliked)
        )
        considered = self._supports[target]
        by_place = dict(zip(self._newest_first, considered, strict=True))
        named = self._named(Kind(likeliest), target, place)
        supports = tuple(by_place[one] for one in named)
        taste, seen = self._taste(target), bool((self.asked.items == item).any())
        left_out = listed([one.label for one in supports])
        if likeliest == Kind.TASTE and taste is not None:
            left_out = f"all of {taste.name} but the strongest"
        return Reason(
            kind=NAMES[Kind(kind)],
            verb=self.asked.verb,
            rank=int(self.found.figures.rank[0, target]),
            supports=supports if kind == likeliest else (),
            together=self._together(target, place) if kind == Kind.SET else None,
            taste=taste,
            confidence=finite(judgement.confidence[0, target]),
            likeliest=NAMES[Kind(likeliest)],
            threshold=self.asked.sure,
            checks=checks_of(
                self.found,
                Kind(likeliest),
                place,
                Reported(target, self.asked.sure, seen, left_out, self._liked(target)),
            ),
            considered=tuple(considered),
            although=() if disliked < 0 else (by_place[disliked],),
            calibrator=self.asked.calibrator,
            models=len(self.found.figures.lost),
            in_history=seen,
            removal=self.asked.removal,
        )

    def _named(self, kind: Kind, target: int, place: int) -> list[int]:
        """Return the places of the items of a reason, newest first."""
        if kind == Kind.ITEM:
            return [place]
        if kind == Kind.SET:
            older, newer = self.found.figures.pairs[0, target, place].tolist()
            return [newer, older]
        return []

    def _together(self, target: int, pair: int) -> Together:
        """Return what a target loses without both items of a pair."""
        figures = self.found.figures
        return Together(
            finite(_share(figures.pair_lost.mean(dim=0))[0, target, pair]),
            int(figures.rank[0, target]),
            int(figures.pair_rank_without[0, target, pair]),
        )

    def _liked(self, target: int) -> int:
        """Return how many items count for the taste of a target."""
        grouped = self.found.figures.in_group[0, target].cpu().numpy()
        low = np.zeros_like(grouped)
        if self.asked.low is not None:
            own = self.asked.low[-len(grouped) :]
            low[len(low) - len(own) :] = own
        return int((grouped & ~low)[-RECENT_EVENTS:].sum())

    def _taste(self, target: int) -> Taste | None:
        """Return what the history holds of the target's group."""
        groups, figures = self.asked.groups, self.found.figures
        group = int(figures.group[0, target])
        if groups is None or group == NO_GROUP:
            return None
        recent = self.asked.items[-RECENT_EVENTS:].astype(np.int64)
        own = groups.member[group].cpu().numpy()[recent]
        low = self.asked.low
        liked = own if low is None else own & ~low[-RECENT_EVENTS:]
        return Taste(
            self._group_name(group, recent[liked][::-1].tolist()),
            int(own.sum()),
            len(recent),
            finite(_share(figures.group_lost.mean(dim=0))[0, target]),
            finite(_share(figures.others_lost.mean(dim=0))[0, target]),
            int(figures.rank[0, target]),
            int(figures.group_rank_without[0, target]),
        )

    def _group_name(self, group: int, newest_first: list[int]) -> str:
        """Return the name of a group, or some of its items."""
        assert self.asked.groups is not None
        if self.asked.groups.names:
            return self.asked.groups.names[group]
        newest = list(dict.fromkeys(newest_first))[:EXAMPLES]
        like = listed(self.asked.catalog.labels(newest)) if newest else "this one"
        return f"items like {like}"


def _share(lost: Tensor) -> Tensor:
    """Return the share of a probability that is lost with these log-probabilities."""
    return -torch.expm1(-lost.double().clamp(min=-700.0))
