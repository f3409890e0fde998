"""Synthetic sessions: tracks and listeners, with the cause of every skip known.

The first rule that applies decides about a track:

1. **chance** decides about a share of all tracks;
2. **popularity**: the least popular tracks are skipped, the most popular are not;
3. **music**: a track that sounds unlike the rest of its session is skipped;
4. **context**: in the second half, radio and charts tire the listener, who skips; the listener's
   own collection keeps playing;
5. **persistence**: the listener repeats the last decision or follows a habit.

Every cause except chance can be read from exactly one feature group.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

import whence
from whence.arrays import Bools, Ints
from whence.errors import InputError
from whence.files import MANIFEST, new_folder, read_json, write_json
from whence_studies.sessions.listening_config import ListeningConfig
from whence_studies.sessions.schema import (
    ACOUSTIC,
    AUDIO,
    BEHAVIOR,
    CAUSE,
    CONTEXT_TYPES,
    DATE,
    HOUR,
    LENGTH,
    LOG_COLUMNS,
    MODE,
    POSITION,
    SESSION,
    SKIPPED,
    TRACK,
    TRACK_COLUMNS,
    TRACK_ID,
    Cause,
)
from whence_studies.sessions.session_files import CAUSES, LOGS, TRACKS, SessionFiles, find_files
from whence_studies.sessions.tracks import MODES

DASHES: Final = (0, 8, 12, 16, 20, 32)
"""Where the parts of an id start and end in its 32 digits."""
RANGES: Final = {
    "key": (0.0, 11.0, 1.0),
    "loudness": (-30.0, 0.0, 0.0),
    "tempo": (60.0, 200.0, 0.0),
    "time_signature": (3.0, 5.0, 1.0),
    "dyn_range_mean": (2.0, 20.0, 0.0),
}
"""Minimum, maximum, and 1 for integers; all other features lie between 0 and 1."""
OWN_SOUND: Final = 0.25
"""Distance of a track from its genre's sound; genres are about 1 apart."""
FIRST_DAY: Final = np.datetime64("2018-07-15")
LOGS_OF_A_DAY: Final = 10
RESTLESS, CALM = ("radio", "charts"), ("user_collection",)
OTHER_CONTEXTS: Final = tuple(one for one in CONTEXT_TYPES if one not in RESTLESS + CALM)
AT_ONCE, LATE = 0.8, 0.25
"""Share of the skips that happen at once, and of the played tracks that are left late."""
TRACK_FILES: Final = 2
SETTINGS: Final = "listening"
"""Key of the settings in the manifest."""


@dataclass(frozen=True, eq=False)
class SyntheticTracks:
    """Tracks in the challenge's format, and the hidden variables behind them."""

    table: pa.Table
    genre: npt.NDArray[np.int64]
    consensus: npt.NDArray[np.int8]
    """1: nobody skips it; -1: everybody does; 0: it depends."""


def draw_tracks(config: ListeningConfig, rng: np.random.Generator) -> SyntheticTracks:
    """Draw tracks: every genre has its own sound, and popularity gives the consensus."""
    count = config.tracks
    genre = rng.permutation(count) % config.genres
    sounds = rng.uniform(-1, 1, (config.genres, len(ACOUSTIC)))
    sound = sounds[genre] + OWN_SOUND * rng.normal(size=(count, len(ACOUSTIC)))
    describe = rng.normal(size=(len(ACOUSTIC), len(AUDIO))) / len(ACOUSTIC) ** 0.5
    shares = 1 / (1 + np.exp(-2 * sound @ describe))
    rank = rng.permutation(count) / count
    columns: dict[str, object] = {
        TRACK_ID: random_ids("t_", count, rng),
        "duration": rng.normal(215, 45, count).clip(35, 900).round(3),
        "release_year": 2018 - rng.exponential(8, count).clip(0, 60).astype(np.int64),
        # uniform, so that both ends of popularity stand out equally
        "us_popularity_estimate": (90 + 10 * rank).round(6),
    }
    for name, share in zip(AUDIO, shares.T, strict=True):
        least, most, unit = RANGES.get(name, (0.0, 1.0, 0.0))
        value = least + (most - least) * share
        columns[name] = np.round(value).astype(np.int64) if unit else value.astype(np.float32)
    columns[MODE] = np.array(MODES)[(shares[:, AUDIO.index(MODE)] > 0.4).astype(int)]
    columns |= zip(ACOUSTIC, sound.T.astype(np.float32), strict=True)
    consensus = (rank >= 1 - config.popular).astype(np.int8) - (rank < config.unpopular)
    table = pa.table({name: columns[name] for name in TRACK_COLUMNS})
    return SyntheticTracks(table, genre, consensus.astype(np.int8))


def random_ids(prefix: str, count: int, rng: np.random.Generator) -> pa.Array:
    """Draw ids in the challenge's format: a prefix and 32 hexadecimal digits in five parts."""
    digits = np.frombuffer(rng.bytes(16 * count).hex().encode(), dtype="S32")
    texts = pa.array(digits).cast(pa.string())
    parts = [pc.utf8_slice_codeunits(texts, begin, end) for begin, end in pairwise(DASHES)]
    return pc.binary_join_element_wise(
        pa.scalar(prefix), pc.binary_join_element_wise(*parts, "-"), ""
    )


@dataclass(frozen=True, eq=False)
class SyntheticLog:
    """A log in the challenge's format, and the cause of each row."""

    table: pa.Table
    causes: npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class _Decided:
    """`[sessions, longest]`: whether each track was skipped, and why."""

    skipped: Bools
    cause: npt.NDArray[np.int8]


def day_of(log: int) -> tuple[int, np.datetime64]:
    """Return the day of a log, as a number and as a date."""
    number = log // LOGS_OF_A_DAY
    return number, FIRST_DAY + np.timedelta64(number, "D")


def make_log(
    config: ListeningConfig, tracks: SyntheticTracks, log: int, rng: np.random.Generator
) -> SyntheticLog:
    """Draw the log of that number; ten logs make a day."""
    count, width = config.sessions, config.longest
    any_length = rng.integers(config.shortest, width + 1, count)
    lengths = np.where(rng.random(count) < config.full, width, any_length)
    there = np.arange(width) < lengths[:, None]
    home = rng.integers(0, config.genres, count)
    track, strange = _choose_tracks(config, tracks, home, rng)
    mood = _draw_sign(config.restless, config.calm, count, rng)
    decided = _decide(config, tracks.consensus[track], strange, mood, lengths, rng)
    number, date = day_of(log)
    session = np.repeat(np.arange(count), lengths)
    columns = {
        SESSION: random_ids(f"{number}_", count, rng).take(pa.array(session)),
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
    return SyntheticLog(table, decided.cause[there])


def _choose_tracks(
    config: ListeningConfig, tracks: SyntheticTracks, home: Ints, rng: np.random.Generator
) -> tuple[Ints, Bools]:
    """Draw tracks `[sessions, longest]`, and whether each is from another genre."""
    shape = (len(home), config.longest)
    strange = rng.random(shape) < config.off_genre
    other = rng.integers(1, config.genres, shape)
    genre = (home[:, None] + strange * other) % config.genres
    order = np.argsort(tracks.genre, kind="stable")
    sizes = np.bincount(tracks.genre, minlength=config.genres)
    starts = np.cumsum(sizes) - sizes
    place = (rng.random(shape) * sizes[genre]).astype(np.int64)
    return order[starts[genre] + place], strange


def _decide(
    config: ListeningConfig,
    consensus: npt.NDArray[np.int8],
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
        [chance, consensus != 0, strange, tired != 0],
        [Cause.CHANCE, Cause.POPULARITY, Cause.MUSIC, Cause.CONTEXT],
        Cause.PERSISTENCE,
    ).astype(np.int8)
    skipped: Bools = np.select(
        [chance, consensus != 0, strange, tired != 0],
        [rng.random(shape) < 0.5, consensus < 0, strange, tired > 0],
        False,
    )
    skipper: Bools = np.less(rng.random(shape[0]), config.skippers)
    habit = skipper[:, None] ^ (rng.random(shape) >= config.habit)
    same: Bools = np.less(rng.random(shape), config.momentum)
    same[:, 0] = False  # the first track has no predecessor
    for place in range(shape[1]):
        persists = cause[:, place] == Cause.PERSISTENCE
        usual = np.where(same[:, place], skipped[:, place - 1], habit[:, place])
        skipped[:, place] = np.where(persists, usual, skipped[:, place])
    return _Decided(skipped, cause)


def _draw_sign(
    up: float, down: float, count: int, rng: np.random.Generator
) -> npt.NDArray[np.int8]:
    """Draw 1 with probability `up`, -1 with probability `down`, else 0."""
    drawn = rng.random(count)
    return (drawn < up).astype(np.int8) - (drawn >= 1 - down).astype(np.int8)


def _context(mood: npt.NDArray[np.int8], rng: np.random.Generator) -> npt.NDArray[Any]:
    drawn = rng.random(len(mood))
    choices = {1: RESTLESS, -1: CALM, 0: OTHER_CONTEXTS}
    picked = {
        sign: np.array(names)[(drawn * len(names)).astype(int)] for sign, names in choices.items()
    }
    return np.select([mood == 1, mood == -1], [picked[1], picked[-1]], picked[0])


def _behave(skipped: Bools, there: Bools, rng: np.random.Generator) -> dict[str, Any]:
    """Draw the remaining columns of the log, consistent with the skips."""
    shape = skipped.shape
    at_once = skipped & (rng.random(shape) < AT_ONCE)
    in_the_end = skipped | (rng.random(shape) < LATE)
    ends = np.where(in_the_end, "fwdbtn", "trackdone")
    first = np.array(["appload", "clickrow", "playbtn"])[rng.integers(0, 3, shape[0])]
    starts = np.hstack([first[:, None], ends[:, :-1]])
    pause = rng.choice(3, shape, p=(0.75, 0.1, 0.15))
    pause[:, 0] = 3  # the first track follows no other
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


def write_sessions(
    folder: Path, config: ListeningConfig | None = None, overwrite: bool = False
) -> SessionFiles:
    """Write logs, track features and causes to a new folder.

    The same configuration gives the same bytes.
    """
    config = config or ListeningConfig()
    tracks = design_tracks(config)
    seeds = _seeds(config)[1:]
    with new_folder(folder, overwrite) as new:
        for name in (LOGS, TRACKS, CAUSES):
            (new / name).mkdir()
        each = -(-config.tracks // TRACK_FILES)
        for part in range(TRACK_FILES):
            _write(
                tracks.table[part * each : (part + 1) * each], new / TRACKS / f"tf_{part:012}.csv"
            )
        for log, seed in enumerate(seeds):
            log_drawn = make_log(config, tracks, log, np.random.default_rng(seed))
            words = np.array([cause.word for cause in Cause])[log_drawn.causes]
            truth = log_drawn.table.select([SESSION, POSITION]).append_column(
                CAUSE, pa.array(words)
            )
            _write(log_drawn.table, new / LOGS / log_name(log))
            _write(truth, new / CAUSES / log_name(log))
        files = sorted(path.relative_to(new).as_posix() for path in new.rglob("*.csv"))
        document = {"whence": whence.__version__, SETTINGS: asdict(config), "files": files}
        write_json(new / MANIFEST, document)
    return find_files(folder)


def check_settings(files: SessionFiles, config: ListeningConfig) -> None:
    """Raise if the manifest says that the files were written with other settings."""
    manifest = files.tracks[0].parent.parent / MANIFEST
    written_with = read_json(manifest).get(SETTINGS) if manifest.is_file() else None
    if not isinstance(written_with, dict):
        return
    for name, value in asdict(config).items():
        if written_with.get(name, value) != value:
            raise InputError(
                f"{manifest}: these sessions were written with {name}={written_with[name]}, not "
                f"{value}. Pass the settings that write_sessions got."
            )


def design_tracks(config: ListeningConfig) -> SyntheticTracks:
    """Return the tracks of sessions with these settings, numbered as in their files."""
    return draw_tracks(config, np.random.default_rng(_seeds(config)[0]))


def _seeds(config: ListeningConfig) -> list[np.random.SeedSequence]:
    """Return the seeds of the tracks and of every log."""
    return np.random.SeedSequence(config.seed).spawn(1 + config.logs)


def log_name(log: int) -> str:
    """Return the challenge's name of a log: its number within the day, and the day."""
    day = str(day_of(log)[1]).replace("-", "")
    return f"log_{log % LOGS_OF_A_DAY}_{day}_000000000000.csv"


def _write(table: pa.Table, path: Path) -> None:
    """Write without quotes, as in the challenge's files."""
    with path.open("wb") as file:
        file.write((",".join(table.column_names) + "\n").encode())
        pa_csv.write_csv(
            table, file, pa_csv.WriteOptions(include_header=False, quoting_style="none")
        )
