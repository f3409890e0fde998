"""What the users of a world watch, step by step, every user at once."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from whence.worlds.config import NONE, Kind, WorldConfig
from whence.worlds.films import Films

Ints = npt.NDArray[np.int32]
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

    def _wish(self, rows: Rows, step: int) -> Ints:
        """One film a row, by its kind of event."""
        draw, mood = self.rng.random((2, len(rows)))
        kind = self.kind[rows, step]
        genre = (mood[:, None] > self.taste[rows, :-1]).sum(axis=1)
        return np.select(
            [kind == Kind.TASTE, kind == Kind.POPULAR],
            [self.films.draw_in_genre(draw, genre), self.films.draw_famous(draw)],
            (draw * len(self.films)).astype(np.int32),
        )

    def _shun(self, rows: Rows, wanted: Ints, step: int) -> Rows:
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
