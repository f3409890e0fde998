"""How the next item of a user comes about, and how probable each reason is, in closed form.

Several sources compete for the next event. Source `s` has a rate `r_s` and a distribution `q_s`
over items, and the history accepts an item with probability `a(i)`. So the next item is `i`, and
its source is `s`, with a probability proportional to `r_s · q_s(i) · a(i)`. The sources are:

- a **tie**: one earlier item causes another, less the older it is;
- a **pair**: two earlier items cause a third together, which neither does alone;
- **taste**: an item of a group that the user likes more than others do, by its fame;
- **popularity**: an item by its fame, which drifts with time;
- **noise**: any item.

Users draw groups with probabilities of their own. What everybody has of them, the smaller of the
user's probability and the usual one, belongs to popularity; only the excess is a taste.

Given that `i` is next, `a(i)` and the normalization cancel. So the probability of each source is
its share of `Σ_s r_s · q_s(i)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from whence.arrays import Bools, Floats, Ints, Ints32
from whence.contract import PAD
from whence.worlds.world_config import NONE


@dataclass(frozen=True, eq=False)
class Ties:
    """Each item can cause up to `K` others."""

    result: Ints32
    """`[items, K]`; `NONE` if there is none."""
    rate: Floats
    """`[items, K]`: the rate right after the cause."""
    by_age: Floats
    """`[memory]`: the factor of the rate when the cause is the newest event, the one before, …"""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Some items have a partner, and both together can cause a third item."""

    partner: Ints32
    """`[items]`; `NONE` if there is none. The partner's partner is the item."""
    result: Ints32
    """`[items]`: the same for both partners."""
    rate: float
    by_age: Floats
    """`[memory]`: the factor by the age of the older of the two."""


@dataclass(frozen=True, eq=False)
class Rivals:
    """Items of one family keep users from each other."""

    family: Ints32
    """`[items]`; `NONE` for items without rivals."""
    rules: Bools
    """`[items]`: whether users who have it avoid the other items of the family."""
    acceptance: float
    """The probability with which they accept such an item all the same."""
    memory: int
    """For how many events they avoid it."""


@dataclass(frozen=True, eq=False)
class State:
    """What a world knows about users before their next events, besides their histories."""

    taste: Floats
    """`[B, groups]`: the probability of each group, if the source is taste."""
    epoch: Ints
    """`[B]`: the time, which decides how famous items are."""

    def __getitem__(self, rows: Ints | Bools | slice) -> State:
        return State(self.taste[rows], self.epoch[rows])


@dataclass(frozen=True, eq=False)
class Mechanism:
    """All sources of a world."""

    group: Ints32
    """`[items]`: genre, department or style."""
    fame: Floats
    """`[epochs, items]`: how often an item is drawn, relative to others."""
    ties: tuple[Ties, ...]
    pairs: Pairs
    rivals: Rivals
    repeats: bool
    """Whether a user may choose an item again."""
    taste: float
    """The rate of taste."""
    popularity: float
    noise: float

    @property
    def item_count(self) -> int:
        """Return the number of items."""
        return len(self.group)

    @cached_property
    def memory(self) -> int:
        """Return the number of events that can cause others."""
        return max(len(self.pairs.by_age), *(len(one.by_age) for one in self.ties))

    @property
    def usual(self) -> float:
        """Return the probability of each group in the taste of a usual user."""
        return 1.0 / (int(self.group.max()) + 1)

    @cached_property
    def share(self) -> Floats:
        """Return `[epochs, items]`: the share of each item in the fame of all."""
        found: Floats = self.fame / self.fame.sum(axis=1, keepdims=True)
        return found

    @cached_property
    def share_in_group(self) -> Floats:
        """Return `[epochs, items]`: the share of each item in the fame of its group."""
        groups = int(self.group.max()) + 1
        whole = np.stack([np.bincount(self.group, fame, groups) for fame in self.fame])
        found: Floats = self.fame / whole[:, self.group]
        return found


class Causes(NamedTuple):
    """Sources in the histories `[B, n]`, one per place: ties first, then pairs."""

    result: Ints32
    """`[B, C]`: the item that it would cause."""
    rate: Floats
    """`[B, C]`: 0 where there is none."""
    slot: Ints
    """`[B, C]`: the slot of the cause, or of the newer one of a pair."""
    other: Ints
    """`[B, C]`: the slot of the older one of a pair, or `NONE`."""


def find_causes(mechanism: Mechanism, histories: Ints | Ints32) -> Causes:
    """Return every tie and every pair of the histories `[B, n]`, padded on the left.

    An item counts once, in its newest slot. A cause is over as soon as its result has come, unless
    the item causes itself.
    """
    width = min(mechanism.memory, histories.shape[1])
    first = histories.shape[1] - width
    items = histories[:, first:]
    here = (items != PAD) & _newest_copies(items)
    age = width - 1 - np.arange(width)  # 0 for the newest event
    found = [_tied(one, items, here, age) for one in mechanism.ties]
    found.append(_paired(mechanism.pairs, items, here, age))
    result, rate, slot, other = (np.concatenate(each, axis=1) for each in zip(*found, strict=True))
    return Causes(result, rate, slot + first, np.where(other == NONE, NONE, other + first))


def _newest_copies(items: Ints | Ints32) -> Bools:
    """Return bool `[B, n]`: which slots hold an item that no newer slot holds."""
    slots = np.arange(items.shape[1])
    later = slots[None, :] > slots[:, None]
    copies: Bools = ~((items[:, :, None] == items[:, None, :]) & later).any(axis=2)
    return copies


def _factor(by_age: Floats, age: Ints) -> Floats:
    """Return the factor at each age, 0 beyond the memory."""
    found: Floats = np.where(age < len(by_age), by_age[np.minimum(age, len(by_age) - 1)], 0.0)
    return found


def _tied(ties: Ties, items: Ints | Ints32, here: Bools, age: Ints) -> Causes:
    slots = np.arange(items.shape[1])
    result = np.where(here[:, :, None], ties.result[items], NONE)
    later = slots[None, :] > slots[:, None]
    came = np.stack(
        [
            ((items[:, None, :] == result[:, :, k, None]) & later).any(axis=2)
            for k in range(result.shape[2])
        ],
        axis=2,
    )
    rate = ties.rate[items] * _factor(ties.by_age, age)[:, None]
    rate = np.where((result != NONE) & ~came, rate, 0.0)
    rows, width, each = result.shape
    slot = np.broadcast_to(slots[:, None], (width, each)).reshape(1, -1).repeat(rows, axis=0)
    return Causes(result.reshape(rows, -1), rate.reshape(rows, -1), slot, np.full_like(slot, NONE))


def _paired(pairs: Pairs, items: Ints | Ints32, here: Bools, age: Ints) -> Causes:
    """Each pair stands in the slot of its newer item."""
    slots = np.arange(items.shape[1])
    partner = np.where(here, pairs.partner[items], NONE)
    earlier = slots[None, :] < slots[:, None]
    match = (items[:, None, :] == partner[:, :, None]) & earlier & here[:, None, :]
    match &= (partner != NONE)[:, :, None]
    found = match.any(axis=2)
    other = np.where(found, match.argmax(axis=2), NONE)
    result = np.where(found, pairs.result[items], NONE)
    later = slots[None, :] > slots[:, None]
    came = ((items[:, None, :] == result[:, :, None]) & later).any(axis=2)
    rate = pairs.rate * _factor(pairs.by_age, age[other])
    return Causes(
        result.astype(np.int32),
        np.where(found & ~came, rate, 0.0),
        np.broadcast_to(slots, items.shape).copy(),
        other,
    )


def accepts(mechanism: Mechanism, histories: Ints | Ints32, items: Ints | Ints32) -> Floats:
    """Return `[B]`: the probability with which each history accepts an item."""
    found = np.ones(len(items))
    found[_avoided_because(mechanism.rivals, histories, items).any(axis=1)] = (
        mechanism.rivals.acceptance
    )
    if not mechanism.repeats:
        found[(histories == items[:, None]).any(axis=1)] = 0.0
    return found


def _avoided_because(rivals: Rivals, histories: Ints | Ints32, items: Ints | Ints32) -> Bools:
    """Return bool `[B, n]`: the slots that keep the user from the item."""
    family = rivals.family[items]
    slots = histories.shape[1]
    recent = np.arange(slots) >= slots - rivals.memory
    same = (rivals.family[histories] == family[:, None]) & (family != NONE)[:, None]
    other = (histories != items[:, None]) & (histories != PAD)
    found: Bools = same & other & rivals.rules[histories] & recent
    return found


@dataclass(frozen=True, eq=False)
class Posterior:
    """The probability of each reason of an item, given that it comes next."""

    item: Floats
    """`[B, n]`: that the item in this slot caused it."""
    pair: Floats
    """`[B]`: that a pair caused it."""
    pair_slots: Ints
    """`[B, 2]`: the newer and the older slot of the pair, or `NONE`."""
    taste: Floats
    """`[B]`."""
    popularity: Floats
    noise: Floats
    against: Bools
    """`[B, n]`: the slots that keep the user from it."""


def posterior(
    mechanism: Mechanism, histories: Ints | Ints32, state: State, items: Ints | Ints32
) -> Posterior:
    """Return the probability of each reason, for one item `[B]` of each history `[B, n]`."""
    causes = find_causes(mechanism, histories)
    rate = np.where(causes.result == items[:, None], causes.rate, 0.0)
    rows = np.arange(len(items))
    by_item = np.zeros(histories.shape)
    alone = causes.other == NONE
    row = np.broadcast_to(rows[:, None], rate.shape)
    np.add.at(by_item, (row[alone], causes.slot[alone]), rate[alone])
    paired = np.where(alone, 0.0, rate)
    pair, best = paired.sum(axis=1), paired.argmax(axis=1)
    slots = np.stack((causes.slot[rows, best], causes.other[rows, best]), axis=1)
    liked = state.taste[rows, mechanism.group[items]]
    of_group = mechanism.taste * mechanism.share_in_group[state.epoch, items]
    taste = of_group * np.maximum(liked - mechanism.usual, 0.0)
    popularity = mechanism.popularity * mechanism.share[state.epoch, items]
    popularity += of_group * np.minimum(liked, mechanism.usual)
    noise = np.full(len(items), mechanism.noise / mechanism.item_count)
    total = by_item.sum(axis=1) + pair + taste + popularity + noise
    return Posterior(
        by_item / total[:, None],
        pair / total,
        np.where(pair[:, None] > 0, slots, NONE),
        taste / total,
        popularity / total,
        noise / total,
        _avoided_because(mechanism.rivals, histories, items),
    )


def next_item_probabilities(mechanism: Mechanism, histories: Ints | Ints32, state: State) -> Floats:
    """Return `[B, items]`: how probable each item is as the next one.

    A history that accepts no item any more accepts all.
    """
    causes = find_causes(mechanism, histories)
    rates = (
        mechanism.taste * state.taste[:, mechanism.group] * mechanism.share_in_group[state.epoch]
    )
    rates += mechanism.popularity * mechanism.share[state.epoch]
    rates += mechanism.noise / mechanism.item_count
    row, place = np.nonzero(causes.rate)
    np.add.at(rates, (row, causes.result[row, place]), causes.rate[row, place])
    accepted = rates * _acceptances(mechanism, histories)
    total = accepted.sum(axis=1, keepdims=True)
    accepted = np.where(total > 0, accepted, rates)
    found: Floats = accepted / accepted.sum(axis=1, keepdims=True)
    return found


def _acceptances(mechanism: Mechanism, histories: Ints | Ints32) -> Floats:
    """Return `[B, items]`: the probability with which each history accepts each item."""
    rivals, found = mechanism.rivals, np.ones((len(histories), mechanism.item_count))
    slots = histories.shape[1]
    recent = np.arange(slots) >= slots - rivals.memory
    ruling = (histories != PAD) & rivals.rules[histories] & recent
    ruling &= rivals.family[histories] != NONE
    families = int(rivals.family.max(initial=0)) + 1
    # A family is avoided by its first ruling item, and that item itself only by a second one.
    rows, place = np.nonzero(ruling)
    ruled = np.zeros((len(histories), families), dtype=np.int64)
    distinct = np.unique(np.stack((rows, histories[rows, place]), axis=1), axis=0)
    np.add.at(ruled, (distinct[:, 0], rivals.family[distinct[:, 1]]), 1)
    of_item = np.where(rivals.family != NONE, rivals.family, 0)
    count = np.where(rivals.family != NONE, ruled[:, of_item], 0)
    count[distinct[:, 0], distinct[:, 1]] -= 1
    found[count > 0] = rivals.acceptance
    if not mechanism.repeats:
        rows, place = np.nonzero(histories != PAD)
        found[rows, histories[rows, place]] = 0.0
    return found
