"""Which reason of a recommendation is said, if any: the most specific one that is sure enough.

A reason has to pass checks, each with its figure, and to be the right one with a probability of at
least the threshold. Without such a reason nothing is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Final

import torch
from torch import Tensor

from whence.reasons.calibrator import Beliefs
from whence.reasons.figures import EQUAL, Figures
from whence.reasons.reason import FIRST

SURE: Final = 0.9
"""The probability from which on a reason is said."""
FEWEST_OF_A_TASTE: Final = 2
RECENT_EVENTS: Final = 20
"""A taste is for so many items, at least, that are among so many of the newest events, besides the
strongest and those that were rated low."""
LITTLE: Final = math.log(2.0)
"""What is popular owes less than this to the history: it does not even double its probability."""


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
    """`[U, k]`: the kind that is said, or else the most probable one."""
    confidence: Tensor
    """`[U, k]`: the probability of this reason; 0 if none is possible."""
    place: Tensor
    """`[U, k]`: the place of its item or its pair."""
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

    A kind that fails a check is not said, however probable it is. If nothing is said, the most
    probable reason is returned with the figures that it fails by.
    """
    options, passed = _options(beliefs), _passed(figures, low)
    disliked = torch.full_like(beliefs.items[..., 0], -1, dtype=torch.int64)
    if low is not None:
        liked = _names_no_low(figures, low)
        c = low.shape[1]
        strongest, slot = options[..., :c].where(~liked[..., :c] & passed[..., :c], 0.0).max(dim=2)
        disliked = slot.where(strongest > 1 - sure, -1)
        options = options.where(liked, 0.0)
    best, chosen = options.where(passed, 0.0).max(dim=2)
    said = best >= sure
    confidence, place = options.max(dim=2)
    confidence, place = best.where(said, confidence), chosen.where(said, place)
    c, p = beliefs.items.shape[2], beliefs.sets.shape[2]
    bounds = torch.tensor([c, c + p, c + p + 1], device=place.device)
    # With a stranger's weights, a probability may be no number.
    likeliest = torch.bucketize(place, bounds, right=True).where(confidence > 0, int(Kind.NONE))
    within = place - (likeliest == Kind.SET) * c
    return Judgement(
        kind=likeliest.where(said, int(Kind.NONE)),
        likeliest=likeliest,
        confidence=confidence,
        place=within.where(likeliest <= Kind.SET, 0),
        disliked=disliked,
    )


def _options(beliefs: Beliefs) -> Tensor:
    """Return the probabilities of all that can be said `[U, k, c + p + 2]`."""
    return torch.cat((beliefs.items, beliefs.sets, beliefs.general[..., :2]), dim=2)


def _passed(figures: Figures, low: Tensor | None) -> Tensor:
    """Return which of these pass their checks.

    An item or a pair has to push the target up: it loses without it, and gains by it alone. So has
    a taste, and without it the target has to lose more than without as many other items. What is
    popular must owe little to the history, and be recommended without it.
    """
    item = _up(figures.lost) & _up(figures.alone)
    pair = _up(figures.pair_lost) & _up(figures.pair_alone)
    taste = _up(figures.group_lost) & _up(figures.group_alone)
    taste &= _up(figures.group_lost - figures.others_lost)
    liked = figures.in_group if low is None else figures.in_group & ~low[:, None, :]
    taste &= liked[..., -RECENT_EVENTS:].sum(dim=2) >= FEWEST_OF_A_TASTE
    popular = (figures.full - figures.marginal).mean(dim=0) < LITTLE
    popular &= figures.rank_anyway <= figures.rank.clamp(min=FIRST)
    return torch.cat((item, pair, taste[..., None], popular[..., None]), dim=2)


def _up(change: Tensor) -> Tensor:
    """Return whether log-probabilities rise, by more than rounding, in the mean of the models."""
    return change.mean(dim=0) > EQUAL


def _names_no_low(figures: Figures, low: Tensor) -> Tensor:
    """Return which of these name no item that was rated low."""
    items = ~low[:, None, :].expand(figures.lost.shape[1:])
    older, newer = (items.gather(2, one) for one in figures.pairs.unbind(dim=3))
    general = torch.ones_like(items[..., :1]).expand(-1, -1, 2)
    return torch.cat((items, older & newer, general), dim=2)
