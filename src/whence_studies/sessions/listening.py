"""Made-up listening: why each track is skipped or not is known.

Over every track decides the first of these that has a say:

1. **chance**, over a share of all tracks;
2. **popularity**: what is least popular is skipped, what is most popular is not;
3. **music**: a track that sounds unlike the others of its session is skipped;
4. **context**: in the second half of a session radio and charts tire their listener, who skips, and
   a listener's own collection is left to play;
5. **persistence**: the listener does as with the track before, or as is the listener's habit.

Each but chance can be read from one group of features, and from no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from whence.arrays import Bools, Ints
from whence_studies.sessions.causes import Cause
from whence_studies.sessions.columns import (
    BEHAVIOR,
    CONTEXT_TYPES,
    DATE,
    HOUR,
    LENGTH,
    LOG_COLUMNS,
    POSITION,
    SESSION,
    SKIPPED,
    TRACK,
    TRACK_ID,
)
from whence_studies.sessions.listening_config import ListeningConfig
from whence_studies.sessions.synthetic_tracks import MadeTracks, made_ids

FIRST_DAY: Final = np.datetime64("2018-07-15")
LOGS_OF_A_DAY: Final = 10
RESTLESS, CALM = ("radio", "charts"), ("user_collection",)
EITHER: Final = tuple(one for one in CONTEXT_TYPES if one not in RESTLESS + CALM)
AT_ONCE, LATE = 0.8, 0.25
"""Shares of the skipped tracks that are skipped at once, and of the others that are left late."""


@dataclass(frozen=True, eq=False)
class MadeLog:
    """A log as the challenge has it, and the cause of each row."""

    table: pa.Table
    causes: npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class _Decided:
    """`[sessions, longest]`: what became of each track."""

    skipped: Bools
    cause: npt.NDArray[np.int8]


def day_of(log: int) -> tuple[int, np.datetime64]:
    """The day that a log is of, counted from the first and as a date."""
    number = log // LOGS_OF_A_DAY
    return number, FIRST_DAY + np.timedelta64(number, "D")


def make_log(
    config: ListeningConfig, tracks: MadeTracks, log: int, rng: np.random.Generator
) -> MadeLog:
    """The log of that number, ten of which make a day."""
    count, width = config.sessions, config.longest
    any_length = rng.integers(config.shortest, width + 1, count)
    lengths = np.where(rng.random(count) < config.full, width, any_length)
    there = np.arange(width) < lengths[:, None]
    home = rng.integers(0, config.genres, count)
    track, strange = _choose_tracks(config, tracks, home, rng)
    mood = _draw_sign(config.restless, config.calm, count, rng)
    decided = _decide(config, tracks.everybodys[track], strange, mood, lengths, rng)
    number, date = day_of(log)
    session = np.repeat(np.arange(count), lengths)
    columns = {
        SESSION: made_ids(f"{number}_", count, rng).take(pa.array(session)),
        POSITION: np.nonzero(there)[1] + 1,
        LENGTH: lengths[session],
        TRACK: tracks.table[TRACK_ID].take(pa.array(track[there])),
        DATE: pa.array(np.full(len(session), date)),
        "context_type": _context(mood, rng)[session],
        "premium": (rng.random(count) < 0.8)[session],
        HOUR: rng.integers(0, 24, count)[session],
        f"{BEHAVIOR}is_shuffle": (rng.random(count) < 0.35)[session],
        **_behave(decided.skipped, there, rng),
    }
    table = pa.table({name: columns[name] for name in LOG_COLUMNS})
    return MadeLog(table, decided.cause[there])


def _choose_tracks(
    config: ListeningConfig, tracks: MadeTracks, home: Ints, rng: np.random.Generator
) -> tuple[Ints, Bools]:
    """`[sessions, longest]`: tracks, and whether they are of another genre than the session."""
    shape = (len(home), config.longest)
    strange = rng.random(shape) < config.strangers
    other = rng.integers(1, config.genres, shape)
    genre = (home[:, None] + strange * other) % config.genres
    order = np.argsort(tracks.genre, kind="stable")
    sizes = np.bincount(tracks.genre, minlength=config.genres)
    starts = np.cumsum(sizes) - sizes
    place = (rng.random(shape) * sizes[genre]).astype(np.int64)
    return order[starts[genre] + place], strange


def _decide(
    config: ListeningConfig,
    everybodys: npt.NDArray[np.int8],
    strange: Bools,
    mood: npt.NDArray[np.int8],
    lengths: Ints,
    rng: np.random.Generator,
) -> _Decided:
    shape = strange.shape
    late = np.arange(shape[1]) >= (lengths // 2)[:, None]
    tired = np.where(late, mood[:, None], 0)
    chance = rng.random(shape) < config.noise
    cause = np.select(
        [chance, everybodys != 0, strange, tired != 0],
        [Cause.CHANCE, Cause.POPULARITY, Cause.MUSIC, Cause.CONTEXT],
        Cause.PERSISTENCE,
    ).astype(np.int8)
    skipped: Bools = np.select(
        [chance, everybodys != 0, strange, tired != 0],
        [rng.random(shape) < 0.5, everybodys < 0, strange, tired > 0],
        False,
    )
    skipper: Bools = np.less(rng.random(shape[0]), config.skippers)
    habit = skipper[:, None] ^ (rng.random(shape) >= config.habit)
    same: Bools = np.less(rng.random(shape), config.momentum)
    same[:, 0] = False  # nothing was before
    for place in range(shape[1]):
        persists = cause[:, place] == Cause.PERSISTENCE
        usual = np.where(same[:, place], skipped[:, place - 1], habit[:, place])
        skipped[:, place] = np.where(persists, usual, skipped[:, place])
    return _Decided(skipped, cause)


def _draw_sign(
    up: float, down: float, count: int, rng: np.random.Generator
) -> npt.NDArray[np.int8]:
    """1 with the chance `up`, -1 with the chance `down`, else 0."""
    drawn = rng.random(count)
    return (drawn < up).astype(np.int8) - (drawn >= 1 - down).astype(np.int8)


def _context(mood: npt.NDArray[np.int8], rng: np.random.Generator) -> npt.NDArray[Any]:
    drawn = rng.random(len(mood))
    choices = {1: RESTLESS, -1: CALM, 0: EITHER}
    picked = {
        sign: np.array(names)[(drawn * len(names)).astype(int)] for sign, names in choices.items()
    }
    return np.select([mood == 1, mood == -1], [picked[1], picked[-1]], picked[0])


def _behave(skipped: Bools, there: Bools, rng: np.random.Generator) -> dict[str, Any]:
    """What else the log says of each track, in keeping with whether it was skipped."""
    shape = skipped.shape
    at_once = skipped & (rng.random(shape) < AT_ONCE)
    in_the_end = skipped | (rng.random(shape) < LATE)
    ends = np.where(in_the_end, "fwdbtn", "trackdone")
    first = np.array(["appload", "clickrow", "playbtn"])[rng.integers(0, 3, shape[0])]
    starts = np.hstack([first[:, None], ends[:, :-1]])
    pause = rng.choice(3, shape, p=(0.75, 0.1, 0.15))
    pause[:, 0] = 3  # no track was before
    columns: dict[str, Any] = {
        "skip_1": at_once,
        SKIPPED: skipped,
        "skip_3": in_the_end,
        "not_skipped": ~in_the_end,
        "context_switch": np.zeros(shape, dtype=np.int8),
        "no_pause_before_play": (pause == 0).astype(np.int8),
        "short_pause_before_play": (pause == 1).astype(np.int8),
        "long_pause_before_play": (pause == 2).astype(np.int8),
        f"{BEHAVIOR}n_seekfwd": rng.poisson(0.04, shape),
        f"{BEHAVIOR}n_seekback": rng.poisson(0.04, shape),
        f"{BEHAVIOR}reason_start": starts,
        f"{BEHAVIOR}reason_end": ends,
    }
    return {name: values[there] for name, values in columns.items()}
