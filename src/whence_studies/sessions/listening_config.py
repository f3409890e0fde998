"""Settings of synthetic sessions: their size, and how much each cause decides."""

from __future__ import annotations

from dataclasses import dataclass

from whence.errors import InputError


@dataclass(frozen=True)
class ListeningConfig:
    """How many sessions to draw, and how their listeners behave."""

    sessions: int = 2_000
    """Sessions in each log."""
    logs: int = 1
    """Number of logs; ten make a day, as in the challenge."""
    tracks: int = 1_000
    shortest: int = 10
    longest: int = 20
    full: float = 0.35
    """Share of the sessions that have the maximum length; the others vary in length."""
    genres: int = 6
    off_genre: float = 0.09
    """Share of the tracks from another genre than their session; these are skipped."""
    unpopular: float = 0.05
    """Share of the tracks that everybody skips."""
    popular: float = 0.09
    """Share of the tracks that nobody skips."""
    restless: float = 0.05
    """Share of the sessions whose context tires the listener, who skips the second half."""
    calm: float = 0.07
    """Share of the sessions whose context keeps playing: the second half is not skipped."""
    momentum: float = 0.65
    """How often a listener repeats the last decision if nothing else decides."""
    habit: float = 0.88
    """How often listeners otherwise follow their habit of skipping or not skipping."""
    skippers: float = 0.47
    """Share of the listeners whose habit is to skip."""
    noise: float = 0.03
    """Share of the tracks that are skipped or played at random."""
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.sessions, self.logs) < 1 or self.seed < 0:
            raise InputError("Set sessions and logs to at least 1, and seed to at least 0.")
        if not 2 <= self.shortest <= self.longest:
            raise InputError("Set shortest to at least 2, and longest to at least shortest.")
        if self.genres < 2 or self.tracks < 10 * self.genres:
            raise InputError("Set genres to at least 2, and tracks to at least 10 for each genre.")
        pairs = ((self.unpopular, self.popular), (self.restless, self.calm))
        shares = (
            *(self.full, self.off_genre, self.momentum, self.habit, self.skippers, self.noise),
            *(share for pair in pairs for share in pair),
        )
        if min(shares) < 0 or max(*shares, *map(sum, pairs)) > 1:
            raise InputError(
                "All shares must lie between 0 and 1, and so must the sums unpopular + popular and "
                "restless + calm."
            )
