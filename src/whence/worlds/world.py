"""A world, and the questions whose answers it knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from whence.arrays import Ints32
from whence.data.histories import Cases, span_events
from whence.data.interactions import Interactions
from whence.errors import InputError
from whence.worlds.films import Films, correct_fame, design_films, name_films
from whence.worlds.world_config import NONE, Kind, WorldConfig

Rows = npt.NDArray[np.int64]

TRIES: Final = 8
"""Draws of a film until one is found that is neither seen nor shunned."""


class Lives:
    """The events of some users as grids `[users, steps]`, filled one column at a time.

    Users with long histories come first, so that those still living are always the first rows.
    """

    def __init__(
        self, config: WorldConfig, films: Films, users: slice, rng: np.random.Generator
    ) -> None:
        self.config, self.films, self.rng = config, films, rng
        self.lengths = np.sort(self._draw_lengths(users))[::-1]
        shape = (len(self.lengths), int(self.lengths[0]))
        self.taste = rng.dirichlet(np.full(config.genres, 0.3), shape[0]).cumsum(axis=1)
        self.item, self.cause, self.prevented, self.inhibitor = (
            np.full(shape, NONE, dtype=np.int32) for _ in range(4)
        )
        self.kind = np.full(shape, Kind.POPULAR, dtype=np.int8)
        self.continued = np.zeros(shape, dtype=np.bool_)
        for step in range(shape[1]):
            self._live(step)

    def columns(self) -> tuple[npt.NDArray[np.int64], list[npt.NDArray[np.integer]]]:
        """Lengths, and the flat events of all grids, with the users shuffled."""
        order = self.rng.permutation(len(self.lengths))
        lengths = self.lengths[order]
        lived = np.arange(self.item.shape[1]) < lengths[:, None]
        grids = (self.item, self.kind, self.cause, self.prevented, self.inhibitor)
        return lengths, [grid[order][lived] for grid in grids]

    def _draw_lengths(self, users: slice) -> Rows:
        """How many events each has, where it is not given."""
        if self.config.lengths:
            return np.array(self.config.lengths[users])
        count = len(range(self.config.users)[users])
        spread = self.rng.gamma(2.0, (self.config.events - 3) / 2, count).astype(np.int64)
        return 3 + np.minimum(spread, 4 * self.config.events)

    def _live(self, step: int) -> None:
        """One event of everyone alive."""
        alive = int(np.searchsorted(-self.lengths, -step, side="left"))
        wish, chance = self.rng.random((2, alive))
        kind = self.kind[:alive, step]
        kind[wish < self.config.caused + self.config.taste] = Kind.TASTE
        kind[wish < self.config.caused] = Kind.CAUSED
        kind[chance < self.config.noise] = Kind.NOISE
        unmet = self._watch_sequels(np.flatnonzero(kind == Kind.CAUSED), step)
        kind[unmet] = Kind.TASTE
        self._watch_others(np.flatnonzero(kind != Kind.CAUSED), step)

    def _watch_sequels(self, rows: Rows, step: int) -> Rows:
        """Give each row the sequel of one remembered film; return the rows that remember none."""
        first = max(0, step - self.config.memory)
        if first == step:
            return rows
        sequel = self.films.sequel[self.item[rows, first:step]]
        open_ended = (sequel != NONE) & ~self.continued[rows, first:step]
        lottery = np.where(open_ended, self.rng.random(sequel.shape), -1.0)
        place = lottery.argmax(axis=1)
        every = np.arange(len(rows))
        seen = (self.item[rows, :step] == sequel[every, place][:, None]).any(axis=1)
        found = open_ended[every, place] & ~seen
        lucky, position = rows[found], first + place[found]
        self.item[lucky, step] = sequel[every, place][found]
        self.cause[lucky, step] = position
        self.continued[lucky, position] = True
        unlucky: Rows = rows[~found]
        return unlucky

    def _watch_others(self, rows: Rows, step: int) -> None:
        """Give each row a film by taste, fame or chance that it has neither seen nor shuns.

        Who finds none takes any plain film, perhaps for the second time.
        """
        for _ in range(TRIES):
            wanted = self._wish(rows, step)
            blocked = (self.item[rows, :step] == wanted[:, None]).any(axis=1)
            blocked[self._shun(rows, wanted, step)] = True
            self.item[rows[~blocked], step] = wanted[~blocked]
            rows = rows[blocked]
        self.item[rows, step] = self.rng.integers(0, self.films.plain, len(rows))
        self.kind[rows, step] = Kind.NOISE

    def _wish(self, rows: Rows, step: int) -> Ints32:
        """One film a row, by its kind of event."""
        draw, mood = self.rng.random((2, len(rows)))
        kind = self.kind[rows, step]
        genre = (mood[:, None] > self.taste[rows, :-1]).sum(axis=1)
        return np.select(
            [kind == Kind.TASTE, kind == Kind.POPULAR],
            [self.films.draw_in_genre(draw, genre), self.films.draw_famous(draw)],
            (draw * len(self.films)).astype(np.int32),
        )

    def _shun(self, rows: Rows, wanted: Ints32, step: int) -> Rows:
        """Record, and return, which of the rows want a remake of a film they have seen."""
        if step == 0:
            return rows[:0]
        remake = np.flatnonzero(self.films.original[wanted] != NONE)
        original = self.films.original[wanted[remake]]
        known = self.item[rows[remake], :step] == original[:, None]
        met = known.any(axis=1)
        shunned: Rows = remake[met]
        self.prevented[rows[shunned], step] = wanted[shunned]
        self.inhibitor[rows[shunned], step] = known[met].argmax(axis=1)
        return shunned


# ...


Events = npt.NDArray[np.int64]

USERS_AT_ONCE: Final = 16_384
CORRECTIONS: Final = 3
"""How often a world is lived again until its films are met as often as a given popularity says."""
YEAR_2000: Final = 946_684_800
REASONS: Final = ("caused", "prevented", "taste")


@dataclass(frozen=True, eq=False)
class Questions:
    """Cases whose true reason is known."""

    reason: str
    cases: Cases
    truth: npt.NDArray[np.bool_]
    """`[B, length]`: the one slot that is the cause; for taste every item of the target's genre."""


@dataclass(frozen=True, eq=False)
class World:
    """Interactions, and the truth about every one of their events.

    Positions count a user's own events from 0; `NONE` (-1) says that there is none.
    """

    config: WorldConfig
    interactions: Interactions
    kind: npt.NDArray[np.int8]
    """Why the event happened, as a `Kind`."""
    cause: Ints32
    """The position that caused it."""
    prevented: Ints32
    """The item that would have come in its place."""
    inhibitor: Ints32
    """The position that prevented that item."""
    genre: Ints32
    """Of each item."""

    def questions(self, reason: str, length: int, count: int, seed: int = 0) -> Questions:
        """At most `count` cases with this true reason, drawn at random among all events.

        For "caused" and "taste" the target is the item that came, for "prevented" the one that did
        not. The true reason always lies within the newest `length` events.
        """
        if reason not in REASONS:
            raise InputError(f"A world can be asked for {', '.join(REASONS)}, not '{reason}'.")
        offsets = self.interactions.offsets
        start = np.repeat(offsets[:-1], np.diff(offsets))
        position = {"caused": self.cause, "prevented": self.inhibitor}.get(reason)
        if position is None:
            asked = self.kind == Kind.TASTE
        else:
            asked = (position != NONE) & (np.arange(len(start)) - start - position <= length)
        target = self.prevented if reason == "prevented" else self.interactions.items
        rng = np.random.default_rng(np.random.SeedSequence(seed))
        event = np.sort(rng.permutation(np.flatnonzero(asked))[:count])
        user = np.searchsorted(offsets, event, side="right") - 1
        cases = Cases(
            self.interactions.items, user, start[event], event, target[event].astype(np.int64)
        )
        history, inside = span_events(cases.starts, cases.ends, length)
        if position is None:
            same = self.genre[cases.items[history]] == self.genre[cases.targets][:, None]
        else:
            same = history == (start + position)[event][:, None]
        truth = inside & same
        answerable = truth.any(axis=1)
        return Questions(reason, cases[np.flatnonzero(answerable)], truth[answerable])


def make_world(config: WorldConfig | None = None) -> World:
    """A world; the same configuration gives the same world."""
    config = config or WorldConfig()
    chunks = -(-config.users // USERS_AT_ONCE)
    design, *chances = np.random.SeedSequence(config.seed).spawn(1 + chunks)
    rng = np.random.default_rng(design)
    films = design_films(config, rng)
    lengths, events = _live(config, films, chances)
    for _ in range(CORRECTIONS if config.popularity else 0):
        met = np.bincount(events[0], minlength=config.items)
        films = correct_fame(films, met, config.popularity)
        lengths, events = _live(config, films, chances)
    item, kind, cause, prevented, inhibitor = events
    offsets = np.concatenate(([0], lengths.cumsum())).astype(np.int64)
    interactions = Interactions(
        items=item,
        offsets=offsets,
        times=_times(offsets, rng),
        ratings=None,
        catalog=name_films(films),
        users=pa.table({"user": np.arange(1, config.users + 1)}),
        origin={"source": "world", "world": asdict(config)},
        verb="watched",
    )
    return World(config, interactions, kind, cause, prevented, inhibitor, films.genre)


def _live(
    config: WorldConfig, films: Films, chances: Sequence[np.random.SeedSequence]
) -> tuple[Events, list[npt.NDArray[Any]]]:
    """The users' lengths, and the columns of their events; some users at a time."""
    chunks = len(chances)
    lives = [
        Lives(config, films, slice(first, None, chunks), np.random.default_rng(chance)).columns()
        for first, chance in enumerate(chances)
    ]
    lengths, columns = zip(*lives, strict=True)
    return np.concatenate(lengths), [np.concatenate(some) for some in zip(*columns, strict=True)]


def _times(offsets: Events, rng: np.random.Generator) -> Events:
    """Seconds: every user begins some day from 2000 on and lets up to two days pass each time."""
    running = rng.integers(60, 172_800, offsets[-1]).cumsum()
    first = running[offsets[:-1]]
    begin = YEAR_2000 + rng.integers(0, 10**8, len(first))
    times: Events = running + np.repeat(begin - first, np.diff(offsets))
    return times
