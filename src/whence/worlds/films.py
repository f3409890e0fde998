"""The films of a world: sequels, remakes, popularity and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from whence.arrays import Floats, Ints32
from whence.data.catalog import Catalog
from whence.worlds.world_config import GENRES, NONE, WorldConfig

FAME_DECAY = 0.6
"""The film at rank r is drawn in proportion to r to the power of minus this."""

REMADE_FAME, REMAKE_FAME = 0.3, 0.5
"""How often all remade films and all remakes are drawn, relative to all other films."""

LARGEST_CHANGE = 4.0
"""The largest factor by which a fame is corrected at once."""

ADJECTIVES = """
Amber Ancient Blue Borrowed Broken Burning Crimson Crooked Distant Electric Emerald Endless
Fallen Final Forgotten Frozen Gentle Golden Hidden Hollow Iron Last Little Lonely Lost Midnight
Northern Paper Quiet Restless Rising Scarlet Secret Silent Silver Sleeping Southern Stolen
Velvet Wandering
""".split()
NOUNS = """
Bridge Castle Circus Clock Coast Crown Dancer Desert Echo Engine Falcon Fire Forest Garden Gate
Ghost Harbor Heart Horizon Hotel House Island Journey Kingdom Lake Lantern Letter Lighthouse
Mirror Mountain Ocean Orchard Promise River Road Sailor Season Shadow Sky Station Stranger
Summer Tide Tower Train Valley Violin Voyage Winter Witness
""".split()
PLACES = """
Aldora Bremen Calais Dover Elsinore Fez Genoa Havana Ithaca Jaipur Kyoto Lisbon Malta Naples
Oslo Prague Quito Riga Siena Tunis Utrecht Venice Warsaw York Zagreb
""".split()


@dataclass(frozen=True, eq=False)
class Films:
    """Plain films, then second parts, third parts and remakes. `NONE` means there is none."""

    plain: int
    """The number of films that are neither sequels nor remakes; they come first."""
    sequel: Ints32
    """The film that continues this one."""
    original: Ints32
    """The film that this one remakes."""
    root: Ints32
    """The plain film that it continues or remakes."""
    genre: Ints32
    fame: Floats
    """How often it is drawn; 0 for sequels, which only follow their cause."""

    def __len__(self) -> int:
        """Return the number of films."""
        return len(self.sequel)

    @cached_property
    def _by_genre(self) -> tuple[Ints32, Floats, Floats]:
        """Films sorted by genre, the cumulative sum of their fame, and where each genre starts."""
        drawn = np.flatnonzero(self.fame)
        by_genre = drawn[np.argsort(self.genre[drawn], kind="stable")].astype(np.int32)
        running = self.fame[by_genre].cumsum()
        ends = np.searchsorted(self.genre[by_genre], np.arange(self.genre.max() + 1), side="right")
        return by_genre, running, np.concatenate(([0.0], running[ends - 1]))

    @cached_property
    def _running_fame(self) -> Floats:
        return self.fame.cumsum()

    def draw_famous(self, draw: Floats) -> Ints32:
        """Return one film for each number in [0, 1), by fame."""
        place = np.searchsorted(self._running_fame, draw * self._running_fame[-1], side="right")
        chosen: Ints32 = np.minimum(place, len(self) - 1).astype(np.int32)
        return chosen

    def draw_in_genre(self, draw: Floats, genre: npt.NDArray[np.int64]) -> Ints32:
        """Return one film of the genre for each number in [0, 1), by fame."""
        by_genre, running, begins = self._by_genre
        low, high = begins[genre], begins[genre + 1]
        place = np.searchsorted(running, low + draw * (high - low), side="right")
        chosen: Ints32 = by_genre[np.minimum(place, len(by_genre) - 1)]
        return chosen


def design_films(config: WorldConfig, rng: np.random.Generator) -> Films:
    """Draw sequels, remakes, genres and fame."""
    count = config.items
    sequels, remakes = int(count * config.sequels), int(count * config.remakes)
    thirds = sequels // 3
    seconds = sequels - thirds
    plain = count - sequels - remakes
    second = np.arange(plain, plain + seconds, dtype=np.int32)
    third = np.arange(plain + seconds, plain + sequels, dtype=np.int32)
    remake = np.arange(plain + sequels, count, dtype=np.int32)

    sequel = np.full(count, NONE, dtype=np.int32)
    original = np.full(count, NONE, dtype=np.int32)
    root = np.arange(count, dtype=np.int32)
    continued = rng.permutation(plain)[:seconds]
    sequel[continued], root[second] = second, continued
    sequel[second[:thirds]], root[third] = third, root[second[:thirds]]
    remade = rng.permutation(plain)[: -(-remakes // config.versions)]
    original[remake] = root[remake] = np.repeat(remade, config.versions)[:remakes]

    genre = rng.integers(0, config.genres, plain, dtype=np.int32)
    genre[: config.genres] = np.arange(config.genres)  # no genre is empty
    fame = np.zeros(count)
    # Only a popular original keeps many users from remakes that many would watch.
    if config.popularity:
        drawn = np.concatenate((np.arange(plain), remake))
        others = rng.permutation(np.setdiff1d(drawn, remade))
        fame[np.concatenate((remade, others))] = quantiles(config.popularity, len(drawn))[::-1]
    else:
        fame[:plain] = 1.0 / (1 + rng.permutation(plain)) ** FAME_DECAY
        fame /= fame.sum()
        fame[remade] += REMADE_FAME / max(1, len(remade))
        fame[remake] = REMAKE_FAME / max(1, remakes)
    return Films(plain, sequel, original, root, genre[root], fame)


def quantiles(values: npt.ArrayLike, count: int) -> npt.NDArray[np.int64]:
    """Return `count` values at equally spaced ranks, in increasing order."""
    ordered = np.sort(np.asarray(values, dtype=np.int64))
    return ordered[((np.arange(count) + 0.5) * len(ordered) / count).astype(np.int64)]


def fame_correction(seen: npt.NDArray[np.int64], popularity: Sequence[int]) -> Floats:
    """Return what each item's fame is multiplied with, to come nearer the wanted popularity.

    Fame alone does not determine how often an item is chosen: nobody watches a film twice, sequels
    follow their first parts, and taste divides fame by genre. So the numbers of events are compared
    with the wanted ones, rank by rank. Items with equally many events share their mean rank.
    """
    wanted = np.sort(popularity) * (seen.sum() / np.sum(popularity))
    in_order = np.sort(seen)
    wanted_of = np.bincount(in_order, wanted) / np.maximum(1, np.bincount(in_order))
    change = (1 + wanted_of[seen]) / (1 + seen)
    limited: Floats = change.clip(1 / LARGEST_CHANGE, LARGEST_CHANGE)
    return limited


def name_films(films: Films) -> Catalog:
    """Return a catalog of "Silent Harbor", "Silent Harbor II", "Silent Harbor (remake 1)", …"""
    part = np.zeros(len(films), dtype=np.int64)
    part[films.sequel[films.sequel != NONE]] = 1
    part[films.sequel[(part == 1) & (films.sequel != NONE)]] = 2
    remake = np.flatnonzero(films.original != NONE)
    part[remake] = 3 + _count_equal_before(films.original[remake])
    endings = ["", " II", " III", *(f" (remake {version})" for version in range(1, part.max()))]
    ending = pa.array(endings).take(pa.array(part))
    return Catalog(
        pa.table(
            {
                "item": np.arange(1, len(films) + 1),
                "title": pc.binary_join_element_wise(unique_names(films.root, NOUNS), ending, ""),
                "genres": pa.array(GENRES).take(pa.array(films.genre)),
            }
        )
    )


def unique_names(number: Ints32, nouns: Sequence[str]) -> pa.Array:
    """Return a name for each number: "Silent Harbor", and "Silent Harbor of Aldora" if needed."""
    words = len(ADJECTIVES) * len(nouns)
    word = number.astype(np.int64) * 7919 % words  # neighbours get different names
    names = pc.binary_join_element_wise(
        pa.array(ADJECTIVES).take(pa.array(word % len(ADJECTIVES))),
        pa.array(nouns).take(pa.array(word // len(ADJECTIVES))),
        _places(number // words),
        " ",
    )
    return pc.utf8_rtrim_whitespace(names)


def _count_equal_before(values: Ints32) -> npt.NDArray[np.int64]:
    """Return how many equal values are right before each value; equal values are adjacent."""
    begins = np.flatnonzero(np.diff(values, prepend=NONE))
    return np.arange(len(values)) - np.repeat(begins, np.diff(begins, append=len(values)))


def _places(again: Ints32) -> pa.Array:
    """Return endings that make names unique: "", "of Aldora", …, "of Zagreb", "of Aldora 2", …"""
    tour, place = np.divmod(again - 1, len(PLACES))
    known, number = np.unique(np.where(again == 0, -1, tour), return_inverse=True)
    tours = pa.array(["" if tour <= 0 else f" {tour + 1}" for tour in known.tolist()])
    places = pa.array(["", *(f"of {name}" for name in PLACES)])
    named = places.take(pa.array(np.where(again == 0, 0, place + 1)))
    return pc.binary_join_element_wise(named, tours.take(pa.array(number)), "")
