"""Worlds whose every probability is known: simulated events, and the latent state behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from whence.arrays import Floats, Ints, Ints32
from whence.contract import PAD
from whence.data.histories import Cases
from whence.data.interactions import Interactions
from whence.worlds.designs import EPOCHS, CausalConfig, design
from whence.worlds.films import fame_correction
from whence.worlds.mechanism import (
    Causes,
    Mechanism,
    Posterior,
    State,
    accepts,
    find_causes,
    next_item_probabilities,
    posterior,
)
from whence.worlds.names import name_items
from whence.worlds.world_config import CORRECTIONS, NONE, YEAR_2000, draw_lengths

VERBS: Final = {"films": "watched", "shop": "bought", "music": "played"}
USERS_AT_ONCE: Final = 4_096
TRIES: Final = 30
"""How often a source and an item are drawn before all probabilities are computed."""
HISTORY_IN_EPOCHS: Final = 3
"""How much time the longest history of a world takes."""
EPOCH_IN_SECONDS: Final = 90 * 86_400


class Source(IntEnum):
    """What an event came from."""

    ITEM = 0
    PAIR = 1
    TASTE = 2
    POPULARITY = 3
    NOISE = 4


@dataclass(frozen=True, eq=False)
class CausalWorld:
    """Interactions, the mechanism they came from, and the state of each user."""

    config: CausalConfig
    mechanism: Mechanism
    interactions: Interactions
    taste: Floats
    """`[users, groups]`: the long-term taste of each user."""
    mood: Ints32
    """`[events]`: the group that is the mood of each event."""
    epoch: Ints32
    """`[events]`: the time of each event."""
    source: npt.NDArray[np.int8]
    """`[events]`: the `Source` that was drawn."""
    cause: Ints32
    """`[events]`: the position of the cause in the user's history, or `NONE`."""

    def last_cases(self, users: int, seed: int = 0) -> Cases:
        """Return the histories of some users before their last event."""
        data = self.interactions
        rng = np.random.default_rng(np.random.SeedSequence(seed))
        chosen = np.sort(rng.permutation(data.user_count)[:users])
        ends = data.offsets[chosen + 1] - 1
        targets = data.items[ends].astype(np.int64)
        return Cases(data.items, chosen, data.offsets[chosen], ends, targets)

    def state(self, cases: Cases) -> State:
        """Return what the world knows about users before the event after each case."""
        last = np.maximum(cases.ends - 1, 0)
        following = np.minimum(cases.ends, self.interactions.offsets[cases.users + 1] - 1)
        mood = np.where(cases.ends > cases.starts, self.mood[last], NONE)
        return State(
            taste_of_next(self.config, self.taste[cases.users], mood),
            self.epoch[following].astype(np.int64),
        )

    def truth(self, cases: Cases, items: Ints | Ints32, max_len: int) -> Posterior:
        """Return the probability of each reason, should `items` `[B]` come next.

        Slots are those of histories of `max_len`, of which the world remembers the newest.
        """
        return posterior(self.mechanism, cases.histories(max_len), self.state(cases), items)

    def probabilities(self, cases: Cases) -> Floats:
        """Return `[B, items]`: the probability that each item comes next."""
        longest = max(1, int((cases.ends - cases.starts).max(initial=1)))
        return next_item_probabilities(self.mechanism, cases.histories(longest), self.state(cases))


def taste_of_next(config: CausalConfig, taste: Floats, mood: Ints | Ints32) -> Floats:
    """Return `[B, groups]`: the probability of each group, given the mood of the event before.

    The mood stays, or is drawn again from the long-term taste. `NONE` has been no event yet.
    """
    stays = np.where(mood == NONE, 0.0, config.stay)[:, None]
    found: Floats = (1 - config.mood * stays) * taste
    rows = np.flatnonzero(mood != NONE)
    found[rows, mood[rows]] += config.mood * config.stay
    return found


def make_causal_world(config: CausalConfig | None = None) -> CausalWorld:
    """Return a world; the same configuration gives the same world."""
    config = config or CausalConfig()
    chunks = -(-config.users // USERS_AT_ONCE)
    drawn, *streams = np.random.SeedSequence(config.seed).spawn(1 + chunks)
    rng = np.random.default_rng(drawn)
    plan = design(config, rng)
    chunk = _simulate(config, plan.mechanism, streams)
    for _ in range(CORRECTIONS if config.popularity else 0):
        seen = np.bincount(chunk.columns["item"], minlength=config.items)
        fame = plan.mechanism.fame * fame_correction(seen, config.popularity)
        plan = replace(plan, mechanism=replace(plan.mechanism, fame=fame))
        chunk = _simulate(config, plan.mechanism, streams)
    columns = chunk.columns
    offsets = np.concatenate(([0], chunk.lengths.cumsum())).astype(np.int64)
    interactions = Interactions(
        items=columns["item"],
        offsets=offsets,
        times=YEAR_2000 + columns["seconds"].astype(np.int64),
        ratings=None,
        catalog=name_items(config.generator, plan),
        users=pa.table({"user": np.arange(1, config.users + 1)}),
        origin={"source": "causal world", "world": asdict(config)},
        verb=VERBS[config.generator],
    )
    return CausalWorld(
        config,
        plan.mechanism,
        interactions,
        chunk.taste,
        columns["mood"],
        columns["epoch"],
        columns["source"].astype(np.int8),
        columns["cause"],
    )


@dataclass(frozen=True, eq=False)
class _Simulated:
    """The events of all users, one after the other."""

    lengths: Ints
    taste: Floats
    columns: dict[str, Ints32]


def _simulate(
    config: CausalConfig, mechanism: Mechanism, streams: Sequence[np.random.SeedSequence]
) -> _Simulated:
    """Simulate users in chunks."""
    found = []
    for first, stream in enumerate(streams):
        users = slice(first * USERS_AT_ONCE, min((first + 1) * USERS_AT_ONCE, config.users))
        found.append(_Chunk(config, mechanism, users, np.random.default_rng(stream)).events())
    return _Simulated(
        np.concatenate([one.lengths for one in found]),
        np.concatenate([one.taste for one in found]),
        {name: np.concatenate([one.columns[name] for one in found]) for name in found[0].columns},
    )


class _Chunk:
    """The events of some users as grids `[users, steps]`, filled one column at a time.

    Users with long histories come first, so that active users are always the first rows.
    """

    def __init__(
        self, config: CausalConfig, mechanism: Mechanism, users: slice, rng: np.random.Generator
    ) -> None:
        self.config, self.mechanism, self.rng = config, mechanism, rng
        self.labels = rng.spawn(1)[0]  # what an event is called changes no event
        lengths = draw_lengths(config, users, rng)
        self.order = np.argsort(-lengths, kind="stable")
        self.lengths = lengths[self.order]
        shape = (len(lengths), int(self.lengths[0]))
        self.taste = rng.dirichlet(np.full(config.groups, config.concentration), shape[0])
        # With tiny parameters, the draw can underflow to NaN. Then all groups are liked equally.
        self.taste = np.where(np.isfinite(self.taste), self.taste, 1.0 / config.groups)
        self.time = self._draw_times(shape)
        self.epoch = self.time.astype(np.int32)
        self.item = np.full(shape, PAD, dtype=np.int32)
        self.mood, self.cause = (np.full(shape, NONE, dtype=np.int32) for _ in range(2))
        self.source = np.full(shape, Source.NOISE, dtype=np.int32)
        for step in range(shape[1]):
            self._add_events(step)

    def events(self) -> _Simulated:
        """Return the events in the order of the users."""
        back = np.argsort(self.order, kind="stable")
        lengths = self.lengths[back]
        filled = np.arange(self.item.shape[1]) < lengths[:, None]
        grids = {
            "item": self.item,
            "mood": self.mood,
            "epoch": self.epoch,
            "seconds": (self.time * EPOCH_IN_SECONDS).astype(np.int32),
            "source": self.source,
            "cause": self.cause,
        }
        return _Simulated(
            lengths, self.taste[back], {name: grid[back][filled] for name, grid in grids.items()}
        )

    def _draw_times(self, shape: tuple[int, int]) -> Floats:
        """Draw when users begin, and times that never go back, in epochs."""
        begins = self.rng.random(shape[0]) * (EPOCHS - HISTORY_IN_EPOCHS)
        passed = np.arange(shape[1]) + self.rng.random(shape)
        found: Floats = begins[:, None] + HISTORY_IN_EPOCHS / shape[1] * passed
        return found

    def _add_events(self, step: int) -> None:
        """Add one event of every active user."""
        active = int(np.searchsorted(-self.lengths, -step, side="left"))
        past = self.item[:active, :step]
        before = self.mood[:active, step - 1] if step else np.full(active, NONE, dtype=np.int32)
        state = State(
            taste_of_next(self.config, self.taste[:active], before),
            self.epoch[:active, step].astype(np.int64),
        )
        causes = find_causes(self.mechanism, past) if step else None
        rows = np.arange(active)
        for _ in range(TRIES):
            rows = self._draw(rows, step, past, before, state, causes)
            if not len(rows):
                return
        self._draw_exactly(rows, step, past, state)

    def _draw(
        self,
        rows: Ints,
        step: int,
        past: Ints32,
        before: Ints32,
        state: State,
        causes: Causes | None,
    ) -> Ints:
        """Draw mood, source and item of each row together; return the rows that refuse theirs."""
        rng, mechanism = self.rng, self.mechanism
        mood = self._draw_moods(rows, before[rows])
        always = np.broadcast_to(
            [mechanism.taste, mechanism.popularity, mechanism.noise], (len(rows), 3)
        )
        rates = always if causes is None else np.hstack((causes.rate[rows], always))
        place = _pick(rates, rng)
        known = rates.shape[1] - 3  # the number of places for ties and pairs
        wanted = self._draw_items(place - known, self.taste[rows], mood, state.epoch[rows])
        cause = np.full(len(rows), NONE)
        source = np.maximum(place - known, 0) + Source.TASTE
        if causes is not None:
            tied = np.flatnonzero(place < known)
            at = (rows[tied], place[tied])
            wanted[tied], cause[tied] = causes.result[at], causes.slot[at]
            source[tied] = np.where(causes.other[at] == NONE, Source.ITEM, Source.PAIR)
        self._call_usual_taste_popular(source, state.taste[rows, mechanism.group[wanted]])
        taken = rng.random(len(rows)) < accepts(mechanism, past[rows], wanted)
        done = rows[taken]
        self.item[done, step], self.mood[done, step] = wanted[taken], mood[taken]
        self.source[done, step], self.cause[done, step] = source[taken], cause[taken]
        return rows[~taken]

    def _call_usual_taste_popular(self, source: Ints, liked: Floats) -> None:
        """Call a taste popularity with the probability that it is what everybody has."""
        usual = self.labels.random(len(source)) * liked < self.mechanism.usual
        source[(source == Source.TASTE) & usual] = Source.POPULARITY

    def _draw_moods(self, rows: Ints, before: Ints32) -> Ints32:
        """Keep the mood or draw it again."""
        stays = (self.rng.random(len(rows)) < self.config.stay) & (before != NONE)
        again = _pick(self.taste[rows], self.rng)
        found: Ints32 = np.where(stays, before, again).astype(np.int32)
        return found

    def _draw_items(self, source: Ints, taste: Floats, mood: Ints32, epoch: Ints) -> Ints32:
        """Draw an item of each row by taste (0), popularity (1) or at random (2)."""
        mechanism, rng = self.mechanism, self.rng
        by_mood = rng.random(len(source)) < self.config.mood
        group = np.where(by_mood, mood, _pick(taste, rng))
        item = rng.integers(0, mechanism.item_count, len(source)).astype(np.int32)
        one, all_one = np.zeros_like(group), np.zeros_like(mechanism.group)
        for kind, share, groups, wanted in (
            (0, mechanism.share_in_group, mechanism.group, group),
            (1, mechanism.share, all_one, one),  # all items are one group
        ):
            for now in np.unique(epoch[source == kind]).tolist():
                of = np.flatnonzero((source == kind) & (epoch == now))
                item[of] = _draw_by(share[now], groups, wanted[of], rng)
        return item

    def _draw_exactly(self, rows: Ints, step: int, past: Ints32, state: State) -> None:
        """Draw from all probabilities; what the source was is drawn given the item."""
        rng = self.rng
        probabilities = next_item_probabilities(self.mechanism, past[rows], state[rows])
        item = _pick(probabilities, rng)
        found = posterior(self.mechanism, past[rows], state[rows], item)
        each = np.hstack(
            (
                found.item,
                np.stack((found.pair, found.taste, found.popularity, found.noise), axis=1),
            )
        )
        place = _pick(each, rng)
        tied = place < step
        self.item[rows, step] = item
        self.source[rows, step] = np.where(tied, Source.ITEM, place - step + 1)
        self.cause[rows, step] = np.where(tied, place, NONE)
        paired = place == step
        self.cause[rows[paired], step] = found.pair_slots[paired, 0]
        # The mood only decides what comes later, so any draw leaves later probabilities right.
        before = self.mood[rows, step - 1] if step else np.full(len(rows), NONE, np.int32)
        self.mood[rows, step] = self._draw_moods(rows, before)


def _pick(weights: Floats, rng: np.random.Generator) -> Ints:
    """Return one column for each row, with probability in proportion to its weight."""
    running = weights.cumsum(axis=1)
    place = (running <= rng.random(len(weights))[:, None] * running[:, -1:]).sum(axis=1)
    found: Ints = np.minimum(place, weights.shape[1] - 1)
    return found


def _draw_by(share: Floats, groups: Ints32, group: Ints, rng: np.random.Generator) -> Ints32:
    """Return an item of each wanted group, in proportion to its share there."""
    in_order = np.argsort(groups, kind="stable")
    running = share[in_order].cumsum()
    ends = np.searchsorted(groups[in_order], np.arange(groups.max() + 1), side="right")
    bounds = np.concatenate(([0.0], running[ends - 1]))
    low, high = bounds[group], bounds[group + 1]
    place = np.searchsorted(running, low + rng.random(len(group)) * (high - low), side="right")
    found: Ints32 = in_order[np.minimum(place, len(in_order) - 1)].astype(np.int32)
    return found
