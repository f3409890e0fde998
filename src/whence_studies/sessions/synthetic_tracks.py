"""Made-up tracks: genres that sound alike, and popularity."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from whence_studies.sessions.columns import ACOUSTIC, AUDIO, MODE, TRACK_COLUMNS, TRACK_ID
from whence_studies.sessions.listening_config import ListeningConfig
from whence_studies.sessions.tracks import MODES

DASHES: Final = (0, 8, 12, 16, 20, 32)
"""Where the parts of an id begin and end in its 32 digits."""
ABOUT: Final = {
    "key": (0.0, 11.0, 1.0),
    "loudness": (-30.0, 0.0, 0.0),
    "tempo": (60.0, 200.0, 0.0),
    "time_signature": (3.0, 5.0, 1.0),
    "dyn_range_mean": (2.0, 20.0, 0.0),
}
"""Least, most, and the unit of a whole number; the others lie between 0 and 1."""
OWN_SOUND: Final = 0.25
"""How far a track is from its genre's sound, where genres are about 1 from each other."""


@dataclass(frozen=True, eq=False)
class MadeTracks:
    """Tracks as the challenge's file has them, and what only their maker knows."""

    table: pa.Table
    genre: npt.NDArray[np.int64]
    everybodys: npt.NDArray[np.int8]
    """1: nobody skips it; -1: everybody does; 0: it depends."""


def make_tracks(config: ListeningConfig, rng: np.random.Generator) -> MadeTracks:
    """Every genre has a sound of its own; the least and the most popular are everybody's."""
    count = config.tracks
    genre = rng.permutation(count) % config.genres
    sounds = rng.uniform(-1, 1, (config.genres, len(ACOUSTIC)))
    sound = sounds[genre] + OWN_SOUND * rng.normal(size=(count, len(ACOUSTIC)))
    describe = rng.normal(size=(len(ACOUSTIC), len(AUDIO))) / len(ACOUSTIC) ** 0.5
    shares = 1 / (1 + np.exp(-2 * sound @ describe))
    rank = rng.permutation(count) / count
    columns: dict[str, object] = {
        TRACK_ID: made_ids("t_", count, rng),
        "duration": rng.normal(215, 45, count).clip(35, 900).round(3),
        "release_year": 2018 - rng.exponential(8, count).clip(0, 60).astype(np.int64),
        # evenly spread, so that the most popular stand out as clearly as the least popular
        "us_popularity_estimate": (90 + 10 * rank).round(6),
    }
    for name, share in zip(AUDIO, shares.T, strict=True):
        least, most, unit = ABOUT.get(name, (0.0, 1.0, 0.0))
        value = least + (most - least) * share
        columns[name] = np.round(value).astype(np.int64) if unit else value.astype(np.float32)
    columns[MODE] = np.array(MODES)[(shares[:, AUDIO.index(MODE)] > 0.4).astype(int)]
    columns |= zip(ACOUSTIC, sound.T.astype(np.float32), strict=True)
    everybodys = (rank >= 1 - config.popular).astype(np.int8) - (rank < config.unpopular)
    table = pa.table({name: columns[name] for name in TRACK_COLUMNS})
    return MadeTracks(table, genre, everybodys.astype(np.int8))


def made_ids(prefix: str, count: int, rng: np.random.Generator) -> pa.Array:
    """Ids as the challenge has them: the prefix and 32 hexadecimal digits in five parts."""
    digits = np.frombuffer(rng.bytes(16 * count).hex().encode(), dtype="S32")
    texts = pa.array(digits).cast(pa.string())
    parts = [pc.utf8_slice_codeunits(texts, begin, end) for begin, end in pairwise(DASHES)]
    return pc.binary_join_element_wise(
        pa.scalar(prefix), pc.binary_join_element_wise(*parts, "-"), ""
    )
