"""Which reason of a recommendation is said, if any: the most specific one that is sure enough.

A reason has to pass checks, each with its figure, and to be the right one with a probability of at
least the threshold. Without such a reason nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Final

import torch
from torch import Tensor

from whence.reasons.calibrator import Beliefs
from whence.reasons.figures import Figures

SURE: Final = 0.9
"""The probability from which on a reason is said."""
FEWEST_OF_A_TASTE: Final = 2
"""A taste is for at least so many items besides the strongest."""


class Kind(IntEnum):
    """What a recommendation rests on, the most specific first."""

    ITEM = 0
    SET = 1
    TASTE = 2
    POPULARITY = 3
    NONE = 4
    """No reason is sure enough."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """What is said of targets `[U, k]`."""

    kind: Tensor
    """`[U, k]`: a `Kind`."""
    likeliest: Tensor
    """`[U, k]`: the most probable kind, whether or not it is said."""
    confidence: Tensor
    """`[U, k]`: the probability of the most probable reason."""
    place: Tensor
    """`[U, k]`: the place of the most probable item, or of the most probable pair."""
    disliked: Tensor
    """`[U, k]`: the place of an item rated low that counts in favour of the target, or -1."""

    @staticmethod
    def joined(each: Sequence[Judgement]) -> Judgement:
        """Return the judgements of several groups of users."""
        return Judgement(
            **{
                one.name: torch.cat([getattr(own, one.name) for own in each])
                for one in fields(Judgement)
            }
        )


def judge(
    beliefs: Beliefs, figures: Figures, sure: float = SURE, low: Tensor | None = None
) -> Judgement:
    """Return what is said; `low` `[U, c]` are items that the user rated low, which are never named.

    Kinds that fail a check are not said, however probable they are.
    """
    items, sets, general = (one.where(passed, 0.0) for one, passed in _checked(beliefs, figures))
    disliked = torch.full_like(items[..., 0], -1, dtype=torch.int64)
    if low is not None:
        rated_low = low[:, None, :].expand_as(items)
        strongest, place = items.where(rated_low, 0.0).max(dim=2)
        disliked = place.where(strongest > 1 - sure, -1)
        items = items.where(~rated_low, 0.0)
        of_pair = [rated_low.gather(2, one) for one in figures.pairs.unbind(dim=3)]
        sets = sets.where(~(of_pair[0] | of_pair[1]), 0.0)
    confidence, place = torch.cat((items, sets, general[..., :2]), dim=2).max(dim=2)
    c, p = items.shape[2], sets.shape[2]
    bounds = torch.tensor([c, c + p, c + p + 1], device=place.device)
    likeliest = torch.bucketize(place, bounds, right=True)
    within = place - (likeliest == Kind.SET) * c
    return Judgement(
        kind=likeliest.where(confidence >= sure, int(Kind.NONE)),
        likeliest=likeliest,
        confidence=confidence,
        place=within.where(likeliest <= Kind.SET, 0),
        disliked=disliked,
    )


def _checked(beliefs: Beliefs, figures: Figures) -> list[tuple[Tensor, Tensor]]:
    """Return the probabilities of items, of pairs, and of taste, popularity and none, with whether
    each passes its checks.

    An item or a pair has to push the target up: it loses without it, and gains by it alone. Without
    the taste it has to lose more than without as many other items.
    """
    item = (figures.lost.mean(dim=0) > 0) & (figures.alone.mean(dim=0) > 0)
    pair = (figures.pair_lost.mean(dim=0) > 0) & (figures.pair_alone.mean(dim=0) > 0)
    specific = figures.group_lost.mean(dim=0) > figures.others_lost.mean(dim=0)
    taste = specific & (figures.in_group.sum(dim=2) >= FEWEST_OF_A_TASTE)
    general = torch.ones_like(beliefs.general, dtype=torch.bool)
    general[..., 0] = taste
    return [(beliefs.items, item), (beliefs.sets, pair), (beliefs.general, general)]
