"""Simulation of a world, and cases whose true reason it knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from whence.arrays import Ints, Ints32
from whence.data.histories import Cases, span_events
from whence.data.interactions import Interactions
from whence.errors import InputError
from whence.worlds.films import Films, design_films, fame_correction, name_films
from whence.worlds.world_config import (
    CORRECTIONS,
    NONE,
    YEAR_2000,
    EventKind,
    WorldConfig,
    draw_lengths,
)

TRIES: Final = 8
"""How often a film is drawn until one is neither seen nor avoided."""


class _Simulation:
    """The events of some users as grids `[users, steps]`, filled one column at a time.

    Users with long histories come first, so that active users are always the first rows.
    """

    def __init__(
        self, config: WorldConfig, films: Films, users: slice, rng: np.random.Generator
    ) -> None:
        self.config, self.films, self.rng = config, films, rng
        self.lengths = np.sort(draw_lengths(config, users, rng))[::-1]
        shape = (len(self.lengths), int(self.lengths[0]))
        self.taste = rng.dirichlet(np.full(config.genres, 0.3), shape[0]).cumsum(axis=1)
        self.item, self.cause, self.prevented, self.inhibitor = (
            np.full(shape, NONE, dtype=np.int32) for _ in range(4)
        )
        self.kind = np.full(shape, EventKind.POPULAR, dtype=np.int8)
        self.continued = np.zeros(shape, dtype=np.bool_)
        for step in range(shape[1]):
            self._add_events(step)

    def columns(self) -> tuple[npt.NDArray[np.int64], list[npt.NDArray[np.integer]]]:
        """Return the lengths and the flat events of all grids, with the users shuffled."""
        order = self.rng.permutation(len(self.lengths))
        lengths = self.lengths[order]
        filled = np.arange(self.item.shape[1]) < lengths[:, None]
        grids = (self.item, self.kind, self.cause, self.prevented, self.inhibitor)
        return lengths, [grid[order][filled] for grid in grids]

    def _add_events(self, step: int) -> None:
        """Add one event of every active user."""
        active = int(np.searchsorted(-self.lengths, -step, side="left"))
        wish, replaced = self.rng.random((2, active))
        kind = self.kind[:active, step]
        kind[wish < self.config.caused + self.config.taste] = EventKind.TASTE
        kind[wish < self.config.caused] = EventKind.CAUSED
        kind[replaced < self.config.noise] = EventKind.NOISE
        without = self._watch_sequels(np.flatnonzero(kind == EventKind.CAUSED), step)
        kind[without] = EventKind.TASTE
        self._watch_others(np.flatnonzero(kind != EventKind.CAUSED), step)

    def _watch_sequels(self, rows: Ints, step: int) -> Ints:
        """Give each row the sequel of a remembered film; return the rows that have none."""
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
        unlucky: Ints = rows[~found]
        return unlucky

    def _watch_others(self, rows: Ints, step: int) -> None:
        """Give each row an unseen film that it does not avoid: by taste, by fame or at random.

        A row that finds none gets a random plain film, perhaps for the second time.
        """
        for _ in range(TRIES):
            wanted = self._draw(rows, step)
            blocked = (self.item[rows, :step] == wanted[:, None]).any(axis=1)
            blocked[self._avoid(rows, wanted, step)] = True
            self.item[rows[~blocked], step] = wanted[~blocked]
            rows = rows[blocked]
        self.item[rows, step] = self.rng.integers(0, self.films.plain, len(rows))
        self.kind[rows, step] = EventKind.NOISE

    def _draw(self, rows: Ints, step: int) -> Ints32:
        """Draw one film per row, by the kind of its event."""
        draw, mood = self.rng.random((2, len(rows)))
        kind = self.kind[rows, step]
        genre = (mood[:, None] > self.taste[rows, :-1]).sum(axis=1)
        return np.select(
            [kind == EventKind.TASTE, kind == EventKind.POPULAR],
            [self.films.draw_in_genre(draw, genre), self.films.draw_famous(draw)],
            (draw * len(self.films)).astype(np.int32),
        )

    def _avoid(self, rows: Ints, wanted: Ints32, step: int) -> Ints:
        """Record and return the rows that drew a remake of a film they have seen."""
        if step == 0:
            return rows[:0]
        remake = np.flatnonzero(self.films.original[wanted] != NONE)
        original = self.films.original[wanted[remake]]
        known = self.item[rows[remake], :step] == original[:, None]
        seen = known.any(axis=1)
        avoided: Ints = remake[seen]
        self.prevented[rows[avoided], step] = wanted[avoided]
        self.inhibitor[rows[avoided], step] = known[seen].argmax(axis=1)
        return avoided


USERS_AT_ONCE: Final = 16_384
REASONS: Final = ("caused", "prevented", "taste")


@dataclass(frozen=True, eq=False)
class WorldQuestions:
    """Cases whose true reason is known."""

    reason: str
    cases: Cases
    truth: npt.NDArray[np.bool_]
    """`[B, max_len]`: the slot of the cause; for taste, every item of the target's genre."""


@dataclass(frozen=True, eq=False)
class World:
    """Interactions, and the true reason of each event.

    Positions count the events of a user from 0; `NONE` (-1) means there is none.
    """

    config: WorldConfig
    interactions: Interactions
    kind: npt.NDArray[np.int8]
    """The reason of each event, as a `EventKind`."""
    cause: Ints32
    """The position that caused the event."""
    prevented: Ints32
    """The item that would have come instead."""
    inhibitor: Ints32
    """The position that prevented that item."""
    genre: Ints32
    """The genre of each item."""

    def questions(self, reason: str, max_len: int, count: int, seed: int = 0) -> WorldQuestions:
        """Return at most `count` cases with this true reason, drawn at random from all events.

        The target is the item of the event or, for "prevented", the item that it replaced. The true
        reason is always among the newest `max_len` events.
        """
        if reason not in REASONS:
            raise InputError(f"reason is one of {', '.join(REASONS)}, not '{reason}'.")
        offsets = self.interactions.offsets
        start = np.repeat(offsets[:-1], np.diff(offsets))
        position = {"caused": self.cause, "prevented": self.inhibitor}.get(reason)
        if position is None:
            asked = self.kind == EventKind.TASTE
        else:
            asked = (position != NONE) & (np.arange(len(start)) - start - position <= max_len)
        target = self.prevented if reason == "prevented" else self.interactions.items
        rng = np.random.default_rng(np.random.SeedSequence(seed))
        event = np.sort(rng.permutation(np.flatnonzero(asked))[:count])
        user = np.searchsorted(offsets, event, side="right") - 1
        cases = Cases(
            self.interactions.items, user, start[event], event, target[event].astype(np.int64)
        )
        history, inside = span_events(cases.starts, cases.ends, max_len)
        if position is None:
            same = self.genre[cases.items[history]] == self.genre[cases.targets][:, None]
        else:
            same = history == (start + position)[event][:, None]
        truth = inside & same
        answerable = truth.any(axis=1)
        return WorldQuestions(reason, cases[np.flatnonzero(answerable)], truth[answerable])


def make_world(config: WorldConfig | None = None) -> World:
    """Return a world; the same configuration gives the same world."""
    config = config or WorldConfig()
    chunks = -(-config.users // USERS_AT_ONCE)
    design, *streams = np.random.SeedSequence(config.seed).spawn(1 + chunks)
    rng = np.random.default_rng(design)
    films = design_films(config, rng)
    lengths, events = _simulate(config, films, streams)
    for _ in range(CORRECTIONS if config.popularity else 0):
        seen = np.bincount(events[0], minlength=config.items)
        fame = films.fame * fame_correction(seen, config.popularity)
        films = replace(films, fame=fame)
        lengths, events = _simulate(config, films, streams)
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


def _simulate(
    config: WorldConfig, films: Films, streams: Sequence[np.random.SeedSequence]
) -> tuple[Ints, list[npt.NDArray[Any]]]:
    """Return the history lengths and the columns of events, simulated in chunks of users."""
    chunks = len(streams)
    simulated = [
        _Simulation(config, films, slice(first, None, chunks), np.random.default_rng(stream))
        for first, stream in enumerate(streams)
    ]
    lengths, columns = zip(*(chunk.columns() for chunk in simulated), strict=True)
    return np.concatenate(lengths), [np.concatenate(some) for some in zip(*columns, strict=True)]


def _times(offsets: Ints, rng: np.random.Generator) -> Ints:
    """Return times in seconds: users start after 2000, with up to two days between events."""
    running = rng.integers(60, 172_800, offsets[-1]).cumsum()
    first = running[offsets[:-1]]
    begin = YEAR_2000 + rng.integers(0, 10**8, len(first))
    times: Ints = running + np.repeat(begin - first, np.diff(offsets))
    return times
