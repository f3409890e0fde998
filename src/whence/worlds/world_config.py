"""The configuration of a world."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

import numpy as np

from whence.arrays import Ints
from whence.errors import InputError

NONE: Final = -1
"""Stands for no position, no item or no family."""
YEAR_2000: Final = 946_684_800
CORRECTIONS: Final = 3
"""How often a world is simulated again to match a given popularity."""

GENRES: Final = """
Drama Comedy Thriller Romance Horror Western Animation Musical Mystery Fantasy War Documentary
Adventure Crime Science-Fiction
""".split()


class EventKind(IntEnum):
    """Why an event happened."""

    CAUSED = 0
    TASTE = 1
    POPULAR = 2
    NOISE = 3


@dataclass(frozen=True)
class WorldConfig:
    """The size of a world, and why its events happen."""

    users: int = 2_000
    items: int = 600
    events: int = 50
    """Average number of events of a user, at least three."""
    genres: int = 8
    sequels: float = 0.3
    """Share of items that are sequels."""
    remakes: float = 0.2
    """Share of items that are remakes, which nobody watches after the original."""
    versions: int = 30
    """Remakes of each remade film; with few, models do not learn that they are avoided."""
    caused: float = 0.4
    """Share of events that are sequels, if there is one left to watch."""
    taste: float = 0.35
    """Share of events that follow taste; the others follow popularity."""
    noise: float = 0.05
    """Share of all events that are replaced by random items."""
    memory: int = 20
    """How many events before a sequel its first part may be."""
    seed: int = 0
    lengths: tuple[int, ...] = ()
    """Number of events of each user, instead of `events`."""
    popularity: tuple[int, ...] = ()
    """Wanted number of events of each item, in any order."""

    def __post_init__(self) -> None:
        if self.users < 1 or self.events < 3 or min(self.memory, self.versions) < 1:
            raise InputError(
                "A world needs users >= 1, events >= 3, memory >= 1 and versions >= 1."
            )
        if not 1 <= self.genres <= len(GENRES):
            raise InputError(f"genres is a number from 1 to {len(GENRES)}, not {self.genres}.")
        shares = (self.sequels, self.remakes, self.caused, self.taste, self.noise)
        if min(shares) < 0 or self.caused + self.taste > 1 or self.noise > 1:
            raise InputError("Shares are numbers from 0 to 1, and so is caused + taste.")
        if self.sequels + self.remakes > 0.5 or self.items < 10 * self.genres:
            raise InputError(
                "A world needs 10 items per genre, and sequels + remakes of at most 0.5."
            )
        if self.seed < 0:
            raise InputError(f"seed is a whole number from 0, not {self.seed}.")
        check_given(self)


class SizedConfig(Protocol):
    """What the configuration of every kind of world has."""

    @property
    def users(self) -> int:
        """The number of users."""

    @property
    def items(self) -> int:
        """The number of items."""

    @property
    def events(self) -> int:
        """Average number of events of a user, at least three."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Number of events of each user, instead of `events`."""

    @property
    def popularity(self) -> tuple[int, ...]:
        """Wanted number of events of each item, in any order."""


def check_given(config: SizedConfig) -> None:
    """Raise `InputError` if lengths or a popularity are given that do not fit the sizes."""
    for given, count in ((config.lengths, config.users), (config.popularity, config.items)):
        if given and (len(given) != count or min(given) < 1):
            raise InputError(
                "lengths needs one number for each user, and popularity one for each item, all "
                "from 1."
            )


def draw_lengths(config: SizedConfig, users: slice, rng: np.random.Generator) -> Ints:
    """Draw the number of events of each of these users, unless it is given."""
    if config.lengths:
        return np.array(config.lengths[users])
    count = len(range(config.users)[users])
    spread = rng.gamma(2.0, (config.events - 3) / 2, count).astype(np.int64)
    found: Ints = 3 + np.minimum(spread, 4 * config.events)
    return found
