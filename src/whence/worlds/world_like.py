"""Worlds with the history lengths and item popularity of real data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from whence.data.interactions import Interactions
from whence.errors import InputError
from whence.worlds.designs import CausalConfig, Generator
from whence.worlds.drawing import draw_config
from whence.worlds.films import quantiles
from whence.worlds.world import World, make_world
from whence.worlds.world_config import WorldConfig

ITEMS_PER_GENRE: Final = 10
ITEMS_PER_EVENT: Final = 2
"""Items for each event of the longest history, so that some are left to choose."""
SHORTEST: Final = 3
"""Users with fewer events are in no causal world like the data."""
MOST_USERS: Final = 0.5
"""No item has more events than this share of such a world's users, unless one of the data does."""


def world_like(
    interactions: Interactions, *, users: int = 5_000, longest: int = 1_000, seed: int = 0
) -> World:
    """Return a world of at most `users` users that resembles the data.

    History lengths, cut at `longest`, and item popularity are quantiles of those in the data. The
    number of items keeps the events per item, within two limits: enough for the longest history
    and the most popular item, and no more than in the data. All remakes are of the most popular
    film, since models learn to avoid remakes only from many examples.
    """
    lengths, popularity = _lengths(interactions), _popularity(interactions)
    _check(lengths, popularity, users, longest)
    chosen = np.minimum(quantiles(lengths, min(users, len(lengths))), longest)
    share_of_items = max(chosen.sum() / lengths.sum(), popularity.max() / len(lengths))
    needed = max(ITEMS_PER_EVENT * int(chosen.max()), ITEMS_PER_GENRE * WorldConfig.genres)
    items = min(len(popularity), max(round(len(popularity) * share_of_items), needed))
    return make_world(
        WorldConfig(
            users=len(chosen),
            items=items,
            genres=min(WorldConfig.genres, items // ITEMS_PER_GENRE),
            versions=int(items * WorldConfig.remakes),  # all of one film
            seed=seed,
            lengths=tuple(chosen.tolist()),
            popularity=tuple(quantiles(popularity, items).tolist()),
        )
    )


def draw_config_like(
    interactions: Interactions,
    generator: Generator,
    seed: int,
    *,
    users: int = 3_000,
    items: int = 1_000,
    longest: int = 100,
) -> CausalConfig:
    """Draw the parameters of a causal world that resembles the data in everything measurable.

    History lengths, cut at `longest`, and item popularity are quantiles of those in the data, with
    as many events per item as there, as far as the limits of users and items allow. The same seed
    draws the same other parameters for all data.
    """
    lengths, popularity = _lengths(interactions), _popularity(interactions)
    _check(lengths, popularity, users, longest)
    # Fewer users with as many events per item: the most popular items would be everybody's.
    most = max(MOST_USERS, popularity.max() / len(lengths))
    lengths = lengths[lengths >= SHORTEST]
    chosen = np.minimum(quantiles(lengths, min(users, len(lengths))), longest)
    wanted = len(popularity) * chosen.sum() / popularity.sum()
    if wanted > items:  # with fewer users, items keep their number of events
        chosen = quantiles(chosen, max(1, round(len(chosen) * items / wanted)))
    needed = max(round(wanted), ITEMS_PER_EVENT * int(chosen.max()))
    count = min(needed, items, len(popularity))
    chosen = np.minimum(chosen, max(SHORTEST, count // ITEMS_PER_EVENT))
    drawn = draw_config(generator, seed)
    return replace(
        drawn,
        users=len(chosen),
        items=count,
        events=max(SHORTEST, round(float(chosen.mean()))),
        groups=min(drawn.groups, count // ITEMS_PER_GENRE),
        lengths=tuple(chosen.tolist()),
        popularity=tuple(
            np.minimum(quantiles(popularity, count), max(1, round(most * len(chosen)))).tolist()
        ),
    )


@dataclass(frozen=True)
class StatisticPair:
    """One statistic of the data and of the world."""

    figure: str
    data: float
    world: float


def compare_statistics(data: Interactions, world: Interactions) -> list[StatisticPair]:
    """Return the statistics of both; items without events do not count."""
    pairs = zip(_figures(data).items(), _figures(world).values(), strict=True)
    return [StatisticPair(figure, of_data, of_world) for (figure, of_data), of_world in pairs]


def _figures(interactions: Interactions) -> dict[str, float]:
    lengths, popularity = _lengths(interactions), _popularity(interactions)
    events = int(lengths.sum())
    top = np.sort(popularity)[-max(1, round(0.1 * len(popularity))) :]
    return {
        "users": len(lengths),
        "items": len(popularity),
        "events": events,
        "median events of a user": float(np.median(lengths)),
        "median events of an item": float(np.median(popularity)),
        "density": events / (len(lengths) * len(popularity)),
        "share of events with the top 10 % of items": float(top.sum() / events),
    }


def _lengths(interactions: Interactions) -> npt.NDArray[np.int64]:
    """Return the number of events of each user that has any."""
    lengths = np.diff(interactions.offsets)
    return lengths[lengths > 0]


def _popularity(interactions: Interactions) -> npt.NDArray[np.int64]:
    """Return the number of events of each item that has any."""
    popularity = np.bincount(interactions.items)
    return popularity[popularity > 0]


def _check(
    lengths: npt.NDArray[np.int64], popularity: npt.NDArray[np.int64], users: int, longest: int
) -> None:
    """Raise if the data are too small for a world with reasons."""
    if users < 1 or longest < 3:
        raise InputError("A world like the data needs users >= 1 and longest >= 3.")
    if not len(lengths) or lengths.max() < 3:
        raise InputError(
            "A world like the data needs a user with 3 events or more, but the data have none."
        )
    if len(popularity) < ITEMS_PER_GENRE:
        raise InputError(
            f"A world like the data needs {ITEMS_PER_GENRE} items with events, but the data have "
            f"{len(popularity)}."
        )
