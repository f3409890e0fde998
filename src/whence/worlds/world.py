"""A world, and the questions whose answers it knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from whence.data.histories import Cases, span_events
from whence.data.interactions import Interactions
from whence.errors import InputError
from whence.worlds.config import NONE, Kind, WorldConfig
from whence.worlds.films import Films, correct_fame, design_films, name_films
from whence.worlds.lives import Lives

Ints = npt.NDArray[np.int32]
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
    cause: Ints
    """The position that caused it."""
    prevented: Ints
    """The item that would have come in its place."""
    inhibitor: Ints
    """The position that prevented that item."""
    genre: Ints
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
