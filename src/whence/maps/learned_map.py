"""Maps of all items or all users, with their names and groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from torch import Tensor

from whence.arrays import Floats
from whence.capabilities import require
from whence.config import require_choice
from whence.contract import HasItemVectors, HasUserVectors
from whence.data.catalog import Catalog
from whence.data.interactions import Interactions
from whence.errors import InputError, did_you_mean
from whence.maps.groups import Groups, ages_of, genres_of
from whence.maps.projection import Projection, pca, tsne


@dataclass(frozen=True)
class Side:
    """Items or users, and what to compare them by."""

    whose: str
    shared: str
    """What two of them may have in common."""
    capability: str
    """The model's method that returns their vectors."""
    groups: Callable[[Interactions], Groups]
    """Returns their groups; raises if the data have none."""
    drawn: Callable[[object, Interactions], LearnedMap]
    """Returns all of them in the plane of their principal components."""

    def vectors(self, model: object) -> Tensor:
        """Return the vectors that the model has for them."""
        require(model, (self.capability,), who=f"a map of {self.whose}")
        found: Tensor = getattr(model, self.capability)()
        return found


SIDES: Final = {
    "genre": Side(
        "items",
        "a genre",
        "item_vectors",
        lambda data: genres_of(data.catalog),
        lambda model, data: map_items(model, data.catalog),
    ),
    "age": Side(
        "users",
        "an age",
        "user_vectors",
        lambda data: ages_of(data.users),
        lambda model, data: map_users(model, data.users),
    ),
}
"""By what neighbours may share."""
By = Literal["pca", "t-sne"]
OTHERS, SEVERAL = "others", "several of these"
"""Labels of points in none of the groups shown, or in more than one."""
PROJECTIONS: Final[dict[By, Callable[[Tensor], Projection]]] = {"pca": pca, "t-sne": tsne}


@dataclass(frozen=True, eq=False)
class LearnedMap:
    """Where a model places items or users, as points of the plane."""

    points: Floats
    """`[N, 2]`."""
    names: tuple[str, ...]
    groups: Groups
    method: str
    kept: float | None
    """The share of the variance that the plane keeps, if known."""

    @property
    def title(self) -> str:
        """How the map was computed."""
        kept = "" if self.kept is None else f", {100 * self.kept:.0f} % of the variance"
        return f"{self.method}{kept}"

    def rows(self, shown: Sequence[str]) -> list[dict[str, Any]]:
        """Return one row for each point, with its group among those shown; these come last."""
        columns = (self.points.tolist(), self.names, self.groups.texts(), self._of(shown))
        rows = [
            {"x": x, "y": y, "name": name, "groups": text, "of": own}
            for (x, y), name, text, own in zip(*columns, strict=True)
        ]
        return sorted(rows, key=lambda row: row["of"] != OTHERS)

    def _of(self, shown: Sequence[str]) -> list[str]:
        groups = self.groups
        for name in shown:
            if name not in groups.names:
                raise InputError(
                    f"There is no {groups.what} '{name}': {did_you_mean(name, groups.names)}"
                )
        member = groups.member[:, [groups.names.index(name) for name in shown]]
        counts = member.sum(axis=1).tolist()
        first = member.argmax(axis=1).tolist() if len(shown) else counts
        return [
            OTHERS if not count else SEVERAL if count > 1 else shown[own]
            for count, own in zip(counts, first, strict=True)
        ]


def map_items(model: object, catalog: Catalog, by: By = "pca") -> LearnedMap:
    """Return a map of all items of the catalog, with their genres if the data have them."""
    require(model, ("item_vectors",), who="a map of items")
    assert isinstance(model, HasItemVectors)
    names = tuple(catalog.labels(np.arange(len(catalog))))
    known = "genres" in catalog.table.column_names
    groups = genres_of(catalog) if known else _nothing("genre", len(catalog))
    return _drawn(model.item_vectors(), names, groups, by)


def map_users(model: object, users: pa.Table, by: By = "pca") -> LearnedMap:
    """Return a map of all users of `Interactions.users`, with ages if the data have them."""
    require(model, ("user_vectors",), who="a map of users")
    assert isinstance(model, HasUserVectors)
    names = tuple(f"user {raw}" for raw in users["user"].to_pylist())
    groups = ages_of(users) if "age" in users.column_names else _nothing("age", len(users))
    return _drawn(model.user_vectors(), names, groups, by)


def _nothing(what: str, count: int) -> Groups:
    return Groups(what, (), np.zeros((count, 0), dtype=np.bool_))


def _drawn(vectors: Tensor, names: tuple[str, ...], groups: Groups, by: By) -> LearnedMap:
    require_choice("by", by, By)
    if len(vectors) != len(names):
        raise InputError(
            f"The model has {len(vectors)} vectors, and the data {len(names)} names. Use the data "
            "that the model was trained on."
        )
    found = PROJECTIONS[by](vectors)
    return LearnedMap(found.points, names, groups, found.method, found.kept)
