"""What a model may know vectors of, and what of them the data know besides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from whence.contract import Explainable
from whence.data.interactions import Interactions
from whence.maps.groups import Groups, ages_of, genres_of
from whence.maps.learned import LearnedMap, map_items, map_users


@dataclass(frozen=True)
class Side:
    """Items, or users."""

    whose: str
    shared: str
    """What two of them may have in common."""
    capability: str
    """By which a model tells their vectors."""
    vectors: Callable[[Explainable], Tensor]
    groups: Callable[[Interactions], Groups]
    """What they may share; raises where the data do not say."""
    drawn: Callable[[Explainable, Interactions], LearnedMap]
    """All of them in the plane of their principal components."""


SIDES: Final = {
    "genre": Side(
        "items",
        "a genre",
        "item_vectors",
        lambda model: model.item_vectors(),
        lambda data: genres_of(data.catalog),
        lambda model, data: map_items(model, data.catalog),
    ),
    "age": Side(
        "users",
        "an age",
        "user_vectors",
        lambda model: model.user_vectors(),
        lambda data: ages_of(data.users),
        lambda model, data: map_users(model, data.users),
    ),
}
"""By what neighbours may share."""
