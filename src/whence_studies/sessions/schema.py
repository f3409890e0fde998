"""Columns of the challenge's files, the feature groups derived from them, and causes of skips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

import pyarrow as pa

TEXT: Final = pa.dictionary(pa.int32(), pa.string())
"""Dictionary-encoded: each string is stored once per block."""

SESSION, POSITION, LENGTH, TRACK = (
    "session_id",
    "session_position",
    "session_length",
    "track_id_clean",
)
SKIPPED: Final = "skip_2"
"""The label: the track was played only briefly."""
TRACK_ID: Final = "track_id"
DATE: Final = "date"
HOUR: Final = "hour_of_day"
BEHAVIOR: Final = "hist_user_behavior_"

CONTEXT_TYPES: Final = tuple(
    "catalog charts editorial_playlist personalized_playlist radio user_collection".split()
)
REASONS: Final = tuple(
    "appload backbtn clickrow endplay fwdbtn playbtn popup remote trackdone trackerror "
    "uriopen".split()
)
"""Why a track started or ended; rare other values, such as logout, are not listed."""
CATEGORIES: Final[Mapping[str, tuple[str, ...]]] = {
    "context_type": CONTEXT_TYPES,
    f"{BEHAVIOR}reason_start": REASONS,
    f"{BEHAVIOR}reason_end": REASONS,
}
"""Categorical columns, which become one feature per category."""

LOG_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    SESSION: pa.string(),
    POSITION: pa.int32(),
    LENGTH: pa.int32(),
    TRACK: TEXT,
    "skip_1": pa.bool_(),
    SKIPPED: pa.bool_(),
    "skip_3": pa.bool_(),
    "not_skipped": pa.bool_(),
    "context_switch": pa.bool_(),
    "no_pause_before_play": pa.bool_(),
    "short_pause_before_play": pa.bool_(),
    "long_pause_before_play": pa.bool_(),
    f"{BEHAVIOR}n_seekfwd": pa.int32(),
    f"{BEHAVIOR}n_seekback": pa.int32(),
    f"{BEHAVIOR}is_shuffle": pa.bool_(),
    HOUR: pa.int32(),
    DATE: pa.date32(),
    "premium": pa.bool_(),
    "context_type": TEXT,
    f"{BEHAVIOR}reason_start": TEXT,
    f"{BEHAVIOR}reason_end": TEXT,
}
"""Columns of a session log, in the challenge's order."""

GENERAL: Final = ("duration", "release_year", "us_popularity_estimate")
AUDIO: Final = tuple(
    "acousticness beat_strength bounciness danceability dyn_range_mean energy flatness "
    "instrumentalness key liveness loudness mechanism mode organism speechiness tempo "
    "time_signature valence".split()
)
ACOUSTIC: Final = tuple(f"acoustic_vector_{place}" for place in range(8))
MUSIC: Final = AUDIO + ACOUSTIC
TRACK_FEATURES: Final = GENERAL + MUSIC
MODE: Final = "mode"
"""The only categorical track feature: major or minor."""
TRACK_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    TRACK_ID: pa.string(),
    **{name: pa.string() if name == MODE else pa.float64() for name in TRACK_FEATURES},
}


def _kinds(column: str) -> tuple[str, ...]:
    return tuple(f"{column}_{kind}" for kind in CATEGORIES[column])


GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "position": (POSITION, LENGTH),
    "context": (
        f"{BEHAVIOR}is_shuffle",
        HOUR,
        "premium",
        DATE,
        "no_pause_before_play",
        "short_pause_before_play",
        "long_pause_before_play",
        *_kinds("context_type"),
    ),
    "interaction": (
        *_kinds(f"{BEHAVIOR}reason_start"),
        *_kinds(f"{BEHAVIOR}reason_end"),
        "skip_1",
        SKIPPED,
        "skip_3",
        "not_skipped",
        "context_switch",
        f"{BEHAVIOR}n_seekfwd",
        f"{BEHAVIOR}n_seekback",
    ),
    "general": GENERAL,
    "music": MUSIC,
}
"""The features of a known track, by group."""
LOG_FEATURES: Final = GROUPS["position"] + GROUPS["context"] + GROUPS["interaction"]
"""The features that come from the log."""
UPCOMING_GROUPS: Final = ("position", "general", "music")
"""The groups that are known about a track before it is played."""


def spans(groups: Sequence[str]) -> dict[str, slice]:
    """Return the columns of each group in rows that hold these groups in this order."""
    ends, end = {}, 0
    for group in groups:
        ends[group] = slice(end, end + len(GROUPS[group]))
        end += len(GROUPS[group])
    return ends


KNOWN_SPANS: Final = spans(tuple(GROUPS))
UPCOMING_SPANS: Final = spans(UPCOMING_GROUPS)

SUBSETS: Final[Mapping[str, tuple[str, ...]]] = {
    "S1": ("position", "context"),
    "S2": ("position", "interaction"),
    "S3": ("position", "general"),
    "S4": ("position", "music"),
    "S5": ("position", "context", "interaction"),
    "S6": ("position", "general", "music"),
    "S7": ("position", "context", "interaction", "general"),
    "S8": tuple(GROUPS),
}
"""The experts of Afchar & Hennequin (2020, Figure 7), by the groups that each may see.

In the second half each expert sees those of its groups that are known there.
"""


class Cause(IntEnum):
    """What decided whether a track was skipped."""

    PERSISTENCE = 0
    CONTEXT = 1
    MUSIC = 2
    POPULARITY = 3
    CHANCE = 4

    @property
    def word(self) -> str:
        """The name used in files."""
        return self.name.lower()


GROUP_OF: Final[Mapping[Cause, str]] = {
    Cause.PERSISTENCE: "interaction",
    Cause.CONTEXT: "context",
    Cause.MUSIC: "music",
    Cause.POPULARITY: "general",
}
"""The feature group that reveals a cause; nothing reveals chance."""
CAUSE: Final = "cause"
"""Column of the cause."""
CAUSE_COLUMNS: Final = {SESSION: pa.string(), POSITION: pa.int32(), CAUSE: pa.string()}
"""Columns of a file of causes: the track, then its cause."""
CAUSE_WORDS: Final = pa.array([cause.word for cause in Cause])
