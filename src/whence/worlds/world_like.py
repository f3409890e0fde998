"""A world in the likeness of real data: as many users and items, as long and as popular."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from whence.data.interactions import Interactions
from whence.errors import InputError
from whence.worlds.films import quantiles
from whence.worlds.world import World, make_world
from whence.worlds.world_config import WorldConfig

ITEMS_OF_A_GENRE: Final = 10
CHOICE: Final = 2
"""Items for each event of the longest history, so that something is left to choose."""


def world_like(
    interactions: Interactions, *, users: int = 5_000, longest: int = 1_000, seed: int = 0
) -> World:
    """A world of at most so many users, in the likeness of the data.

    The lengths of the histories are the data's own, cut at `longest`, and so is the popularity of
    the items: equally spaced among all, where the world has fewer. There are as many items as keep
    the events of an item, but enough for the longest history and for the most popular item, which
    nobody meets twice; and never more than the data have. All remakes are of one film, the best
    known, for a prohibition must be met often to be learned.
    """
    lengths, popularity = _lengths(interactions), _popularity(interactions)
    _check(lengths, popularity, users, longest)
    lived = np.minimum(quantiles(lengths, min(users, len(lengths))), longest)
    share_of_items = max(lived.sum() / lengths.sum(), popularity.max() / len(lengths))
    needed = max(CHOICE * int(lived.max()), ITEMS_OF_A_GENRE * WorldConfig.genres)
    items = min(len(popularity), max(round(len(popularity) * share_of_items), needed))
    return make_world(
        WorldConfig(
            users=len(lived),
            items=items,
            genres=min(WorldConfig.genres, items // ITEMS_OF_A_GENRE),
            versions=int(items * WorldConfig.remakes),  # of one film, the best known
            seed=seed,
            lengths=tuple(lived.tolist()),
            popularity=tuple(quantiles(popularity, items).tolist()),
        )
    )


@dataclass(frozen=True)
class StatisticPair:
    """One figure of the data beside the same of the world."""

    figure: str
    data: float
    world: float


def compare_statistics(data: Interactions, world: Interactions) -> list[StatisticPair]:
    """A row a figure; of the items those count that somebody met."""
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
    """How many events each user has who has any."""
    lengths = np.diff(interactions.offsets)
    return lengths[lengths > 0]


def _popularity(interactions: Interactions) -> npt.NDArray[np.int64]:
    """How many events each item has that has any."""
    popularity = np.bincount(interactions.items)
    return popularity[popularity > 0]


def _check(
    lengths: npt.NDArray[np.int64], popularity: npt.NDArray[np.int64], users: int, longest: int
) -> None:
    """Refuse data in whose likeness nothing can have a reason."""
    if users < 1 or longest < 3:
        raise InputError("A world like the data needs a user and histories of 3 events or more.")
    if not len(lengths) or lengths.max() < 3:
        raise InputError(
            "No user of these data has the 3 events that a world with reasons in their likeness "
            "needs."
        )
    if len(popularity) < ITEMS_OF_A_GENRE:
        raise InputError(
            f"A world with reasons needs {ITEMS_OF_A_GENRE} items, and only {len(popularity)} of "
            "these data were met."
        )
