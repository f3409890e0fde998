"""The size, the mix and the noise of a world."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from whence.errors import InputError

NONE: Final = -1
"""There is no such position or item."""

GENRES: Final = """
Drama Comedy Thriller Romance Horror Western Animation Musical Mystery Fantasy War Documentary
Adventure Crime Science-Fiction
""".split()


class Kind(IntEnum):
    """Why an event happened."""

    CAUSED = 0
    TASTE = 1
    POPULAR = 2
    NOISE = 3


@dataclass(frozen=True)
class WorldConfig:
    """Size, mix and noise of a world."""

    users: int = 2_000
    items: int = 600
    events: int = 50
    """Events of a user, on average; at least three."""
    genres: int = 8
    sequels: float = 0.3
    """Share of the items that continue another one."""
    remakes: float = 0.2
    """Share of the items that nobody wants who knows the original."""
    versions: int = 30
    """Remakes of each film that is remade; from a few, models learn no prohibition."""
    caused: float = 0.4
    """Share of the events that are sequels, as long as there is one to watch."""
    taste: float = 0.35
    """Share that follow taste; the rest are only popular."""
    noise: float = 0.05
    """Share of the events, of every kind, that are replaced by anything at all."""
    memory: int = 20
    """How many events back a sequel's first part may lie."""
    seed: int = 0
    lengths: tuple[int, ...] = ()
    """The events of each user, in place of `events`."""
    popularity: tuple[int, ...] = ()
    """How often items are to be met, one number an item in any order, in place of charts."""

    def __post_init__(self) -> None:
        if self.users < 1 or self.events < 3 or min(self.memory, self.versions) < 1:
            raise InputError("A world needs users with 3 events or more, memory and versions.")
        if not 1 <= self.genres <= len(GENRES):
            raise InputError(f"A world has 1 to {len(GENRES)} genres, not {self.genres}.")
        shares = (self.sequels, self.remakes, self.caused, self.taste, self.noise)
        if min(shares) < 0 or self.caused + self.taste > 1 or self.noise > 1:
            raise InputError("A world's shares lie in 0 to 1, caused and taste together too.")
        if self.sequels + self.remakes > 0.5 or self.items < 10 * self.genres:
            raise InputError("A world needs 10 items a genre; at most half continue or remake one.")
        if self.seed < 0:
            raise InputError(f"A world's seed is a whole number from 0 on, not {self.seed}.")
        for given, count in ((self.lengths, self.users), (self.popularity, self.items)):
            if given and (len(given) != count or min(given) < 1):
                raise InputError(
                    "A world's lengths are one for each user, its popularity one number for each "
                    "item, all from 1 on."
                )
