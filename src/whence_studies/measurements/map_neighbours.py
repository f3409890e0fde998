"""Are neighbours alike in what the model was never told? As Jain (2019, Section 3.1.6) asks.

Items are held to share a genre, as in Figure 3.1, and users an age, as in Figures 3.2 and 3.3, by
Euclidean distance in all dimensions, and in the plane of the principal components that is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor

from whence.contract import offers
from whence.errors import InputError
from whence.maps import Groups, pca
from whence.maps.groups import AGE_BANDS, same_group
from whence.maps.learned_map import SIDES
from whence.progress import progress_bar
from whence_studies.measurements.measurement import (
    HeatMap,
    MeasuredRun,
    Measurement,
    NoOptions,
    SeedColumn,
)

FEW, MANY = 3, 10
"""Neighbours, as the thesis looks at them."""
FIGURED: Final = ("Horror", "Children's", "Action")
"""The genres that Figure 3.1 has in colour."""
NEAR, ANYWHERE = f"among the {MANY} nearest", "in the data"


def among(what: str, k: int) -> str:
    """The column of the share of neighbours with the same."""
    return f"same {what}, {k} nearest"


def by_chance(what: str) -> str:
    """The column of the share of anybody with the same."""
    return f"same {what}, random pairs"


def times_chance(what: str) -> str:
    """The column of the one over the other."""
    return f"same {what}, ratio to random"


def in_plane(what: str) -> str:
    """The column of the share among neighbours in the picture."""
    return f"same {what}, {MANY} nearest in the 2-D map"


def cell(group: str, where: str) -> str:
    """The column of how many are of one group, near its members or anywhere."""
    return f"{group} {where}"


def maps(asked: MeasuredRun, _how: NoOptions) -> dict[str, SeedColumn]:
    """Of items, of users, or of both, as far as the model and the data know them."""
    groups = dict(_known(asked))
    if not groups:
        raise InputError(
            "Maps need a model that knows items and data with their genres, or one that knows "
            "users and data with their ages."
        )
    bar = progress_bar("maps", len(asked.run.models), asked.show_progress, transient=True)
    found: dict[str, list[float]] = {}
    words: dict[str, tuple[str, int]] = {}
    for model in bar.track(asked.run.models.values()):
        for what, of in groups.items():
            count = int(of.known().sum())
            for column, value in _columns(SIDES[what].vectors(model), of).items():
                found.setdefault(column, []).append(value)
                words[column] = (f"{_protocol(what)}; {asked.split.protocol}", count)
    return {
        column: SeedColumn(tuple(values), words[column][1], words[column][0], "neither")
        for column, values in found.items()
    }


def _known(asked: MeasuredRun) -> Iterator[tuple[str, Groups]]:
    """What is known of both sides."""
    for what, side in SIDES.items():
        if offers(asked.run.first, side.capability):
            try:
                yield what, side.groups(asked.split.interactions)
            except InputError:  # the data do not say
                continue


def _columns(vectors: Tensor, groups: Groups) -> dict[str, float]:
    what = groups.what
    few, many = (same_group(vectors, groups, k) for k in (FEW, MANY))
    if not many.chance:
        raise InputError(f"No two have the same {what}; there is nothing to find near or far.")
    drawn = same_group(torch.from_numpy(pca(vectors).points), groups, MANY)
    shown = [name for name in many.by_group if name in (*FIGURED, *AGE_BANDS)]
    return {
        among(what, FEW): few.share.value,
        among(what, MANY): many.share.value,
        in_plane(what): drawn.share.value,
        by_chance(what): many.chance,
        times_chance(what): many.share.value / many.chance,
        **{
            cell(name, where): value
            for name in shown
            for where, value in zip((NEAR, ANYWHERE), many.by_group[name], strict=True)
        },
    }


def _protocol(what: str) -> str:
    whose = SIDES[what].whose
    return (
        f"{whose.removesuffix('s')} vectors, nearest neighbours by Euclidean distance; random "
        f"pairs are any two {whose}; the 2-D map is the plane of the principal components"
    )


def _map(title: str, what: str, names: tuple[str, ...]) -> HeatMap:
    return HeatMap(
        title=title,
        down=what,
        across="share with the same",
        value="share",
        cells={(name, where): cell(name, where) for name in names for where in (NEAR, ANYWHERE)},
    )


MEASUREMENT: Final = Measurement(
    tuple(
        column
        for what in SIDES
        for column in (
            among(what, FEW),
            among(what, MANY),
            in_plane(what),
            by_chance(what),
            times_chance(what),
        )
    ),
    maps,
    maps={
        "same genre": _map("Neighbours of the same genre", "genre of the film", FIGURED),
        "same age": _map("Neighbours of the same age", "age of the user", AGE_BANDS),
    },
)
