"""Turns what was found about one user's recommendations into reasons in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Floats, Ints, Ints32
from whence.contract import DROPPED, PAD
from whence.data.catalog import Catalog
from whence.reasons.amounts import MOST_TIMES, times
from whence.reasons.features import agreement_of, mean_of_others
from whence.reasons.groups import NO_GROUP, ItemGroups
from whence.reasons.judgement import Kind
from whence.reasons.reason import CALLED, Check, KindName, Leaving, Reason, Support, Taste
from whence.reasons.reasoner import Found
from whence.reasons.smallest import SmallestSet

RECENT_EVENTS: Final = 20
"""A taste is counted among so many of the newest events."""
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
        several = len(figures.lost) > 1
        ranks = figures.rank[0].tolist()
        found = []
        for target, rows in enumerate(zip(*each, strict=True)):
            of_places = list(zip(*rows, strict=True))
            found.append(
                [
                    self._support(place, of_places[place], ranks[target], several)
                    for place in self._newest_first
                ]
            )
        return found

    def _support(self, place: int, values: tuple[float, ...], rank: int, several: bool) -> Support:
        lost, alone, specific, agreement, confidence, without = values
        raw, label = self._names[place]
        return Support(
            raw,
            label,
            lost,
            alone,
            specific,
            agreement if several else None,
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
        supports: tuple[Support, ...] = ()
        if kind == Kind.ITEM:
            supports = (by_place[place],)
        elif kind == Kind.SET:
            older, newer = self.found.figures.pairs[0, target, place].tolist()
            supports = (by_place[newer], by_place[older])
        confidence = float(judgement.confidence[0, target].nan_to_num(0.0))
        taste = self._taste(target)
        return Reason(
            kind=NAMES[Kind(kind)],
            verb=self.asked.verb,
            rank=int(self.found.figures.rank[0, target]),
            supports=supports,
            taste=taste,
            confidence=confidence,
            likeliest=NAMES[Kind(likeliest)],
            threshold=self.asked.sure,
            checks=self._checks(Kind(likeliest), target, place, taste, confidence),
            considered=tuple(considered),
            although=() if disliked < 0 else (by_place[disliked],),
            calibrator=self.asked.calibrator,
            models=len(self.found.figures.lost),
            in_history=bool((self.asked.items == item).any()),
            removal=self.asked.removal,
        )

    def _taste(self, target: int) -> Taste | None:
        """Return what the history holds of the target's group."""
        groups, figures = self.asked.groups, self.found.figures
        group = int(figures.group[0, target])
        if groups is None or group == NO_GROUP:
            return None
        recent = torch.from_numpy(self.asked.items[-RECENT_EVENTS:].astype(np.int64))
        member = groups.member[group].cpu()
        mine = recent[member[recent]]
        lost, others = (
            float(_share(one.mean(dim=0))[0, target].nan_to_num(0.0))
            for one in (figures.group_lost, figures.others_lost)
        )
        return Taste(self._group_name(group, mine), len(mine), len(recent), lost, others)

    def _group_name(self, group: int, mine: Tensor) -> str:
        """Return the name of a group, or some of its items."""
        groups = self.asked.groups
        assert groups is not None
        if groups.names:
            return groups.names[group]
        newest = list(dict.fromkeys(mine.flip(0).tolist()))[:EXAMPLES]
        return f"items like {' and '.join(self.asked.catalog.labels(newest))}" if newest else "it"

    def _checks(
        self, kind: Kind, target: int, place: int, taste: Taste | None, confidence: float
    ) -> tuple[Check, ...]:
        """Return the tests of the most probable reason."""
        sure = self.asked.sure
        what = CALLED[NAMES[kind]]
        said = f"the right reason with a probability of {100 * confidence:.0f} %, as {what}"
        last = Check(
            "confidence",
            f"{said}; {100 * sure:.0f} % are asked for",
            confidence,
            confidence >= sure,
        )
        if kind in (Kind.ITEM, Kind.SET):
            return (*self._checks_of_items(kind, target, place), last)
        if kind == Kind.TASTE and taste is not None:
            return (
                Check(
                    "specificity",
                    f"loses {100 * taste.probability_lost:.0f} % without {taste.name}, "
                    f"{100 * taste.lost_without_others:.0f} % without as many other items",
                    taste.probability_lost - taste.lost_without_others,
                    taste.probability_lost > taste.lost_without_others,
                ),
                last,
            )
        lift = float((self.found.figures.full - self.found.figures.marginal)[:, 0, target].mean())
        return (
            Check(
                "popularity",
                f"the history makes it {times(lift)} as probable as it is for everyone",
                math.exp(min(lift, 2 * math.log(MOST_TIMES))),
                None,
            ),
            last,
        )

    def _checks_of_items(self, kind: Kind, target: int, place: int) -> tuple[Check, ...]:
        """Return the tests of an item, or of two together."""
        figures = self.found.figures
        several = len(figures.lost) > 1
        if kind == Kind.ITEM:
            lost, alone = figures.lost[:, 0, target], figures.alone[:, 0, target]
            specific = figures.lost.mean(dim=0)
            apart = float((specific - mean_of_others(specific))[0, target, place])
            compared = (
                f"loses {times(apart)} what the other recommendations lose"
                if figures.lost.shape[2] > 1
                else "there is no other recommendation to compare with"
            )
            tested = figures.lost.shape[2] > 1
            specificity = Check("specificity", compared, apart, apart > 0 if tested else None)
        else:
            lost, alone = figures.pair_lost[:, 0, target], figures.pair_alone[:, 0, target]
            older, newer = figures.pairs[0, target, place].tolist()
            single = figures.alone[:, 0, target][:, [older, newer]].mean(dim=0).max()
            beyond = float(alone[:, place].mean() - single)
            specificity = Check(
                "neither alone",
                f"both together make it {times(beyond)} as probable as the stronger one alone",
                beyond,
                beyond > 0,
            )
        without, given = float(lost[:, place].mean()), float(alone[:, place].mean())
        share = -math.expm1(-max(without, -700.0))
        named = float((lost[:, place] >= lost.amax(dim=1)).double().mean())
        return (
            Check(
                "direction",
                "pushes it up" if without > 0 else "pushes it down",
                without,
                without > 0,
            ),
            Check(
                "necessity",
                f"loses {100 * share:.0f} % of its probability without",
                share,
                share > 0,
            ),
            Check(
                "sufficiency",
                f"{times(given)} as probable as usual given that alone",
                given,
                given > 0,
            ),
            specificity,
            Check(
                "agreement",
                f"matters most to {round(named * len(lost))} of {len(lost)} models"
                if several
                else "unknown: the run has one model; train with --seeds 5",
                named if several else None,
                named > 0.5 if several else None,
            ),
        )


def _share(lost: Tensor) -> Tensor:
    """Return the share of a probability that is lost with these log-probabilities."""
    return -torch.expm1(-lost.double().clamp(min=-700.0))
