"""The size of made-up listening, and how much each cause decides."""

from __future__ import annotations

from dataclasses import dataclass

from whence.errors import InputError


@dataclass(frozen=True)
class ListeningConfig:
    """How many sessions are made, and what their listeners are like."""

    sessions: int = 2_000
    """In each log."""
    logs: int = 1
    """Ten of a day, as in the challenge."""
    tracks: int = 1_000
    shortest: int = 10
    longest: int = 20
    full: float = 0.35
    """Share of the sessions that were cut at the longest; the others are of any length."""
    genres: int = 6
    off_genre: float = 0.09
    """Share of the tracks that are of another genre than their session: these are skipped."""
    unpopular: float = 0.05
    """Share of the tracks that everybody skips."""
    popular: float = 0.09
    """Share of the tracks that nobody skips."""
    restless: float = 0.05
    """Share of the sessions whose context tires: the second half is skipped."""
    calm: float = 0.07
    """Share of the sessions whose context is left to play: the second half is not skipped."""
    momentum: float = 0.65
    """How often a listener does as with the track before, where nothing else decides."""
    habit: float = 0.88
    """How often listeners otherwise keep to their habit, to skip or not to skip."""
    skippers: float = 0.47
    """Share of the listeners whose habit is to skip."""
    noise: float = 0.03
    """Share of the tracks over which chance decides."""
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.sessions, self.logs) < 1 or self.seed < 0:
            raise InputError("Listening needs a log, a session and a seed from 0 on.")
        if not 2 <= self.shortest <= self.longest:
            raise InputError("Sessions have 2 tracks or more, the shortest at most as the longest.")
        if self.genres < 2 or self.tracks < 10 * self.genres:
            raise InputError("Listening needs 2 genres or more, and 10 tracks for each.")
        pairs = ((self.unpopular, self.popular), (self.restless, self.calm))
        shares = (
            *(self.full, self.off_genre, self.momentum, self.habit, self.skippers, self.noise),
            *(share for pair in pairs for share in pair),
        )
        if min(shares) < 0 or max(*shares, *map(sum, pairs)) > 1:
            raise InputError(
                "The shares of listening lie in 0 to 1, also unpopular and popular together, and "
                "restless and calm."
            )
