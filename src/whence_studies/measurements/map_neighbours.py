"""Section 3.1.6 (Jain 2019): do neighbouring vectors share what the model never sees?

Items may share a genre, as in Figure 3.1, and users an age, as in Figures 3.2 and 3.3. Neighbours
are nearest by Euclidean distance, in all dimensions and in the plane of the principal components.
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
"""The numbers of neighbours that the thesis uses."""
FIGURED: Final = ("Horror", "Children's", "Action")
"""The genres coloured in Figure 3.1."""
NEAR, ANYWHERE = f"among the {MANY} nearest", "in the data"


def near_share(what: str, k: int) -> str:
    """Return the column of the share of neighbours in the same group."""
    return f"same {what}, {k} nearest"


def random_share(what: str) -> str:
    """Return the column of the share of random pairs in the same group."""
    return f"same {what}, random pairs"


def ratio_to_random(what: str) -> str:
    """Return the column of the ratio of both shares."""
    return f"same {what}, ratio to random"


def map_share(what: str) -> str:
    """Return the column of the share among neighbours in the 2-D map."""
    return f"same {what}, {MANY} nearest in the 2-D map"


def cell(group: str, where: str) -> str:
    """Return the column of the share of one group, near its members or in the data."""
    return f"{group} {where}"


def maps(subject: MeasuredRun, _options: NoOptions) -> dict[str, SeedColumn]:
    """Return the columns of items, users or both, as far as the model and the data have them."""
    groups = dict(_known(subject))
    if not groups:
        raise InputError(
            "Maps need item vectors and data with genres, or user vectors and data with ages."
        )
    bar = progress_bar("maps", len(subject.run.models), subject.show_progress, transient=True)
    found: dict[str, list[float]] = {}
    words: dict[str, tuple[str, int]] = {}
    for model in bar.track(subject.run.models.values()):
        for what, of in groups.items():
            count = int(of.known().sum())
            for column, value in _columns(SIDES[what].vectors(model), of).items():
                found.setdefault(column, []).append(value)
                words[column] = (f"{_protocol(what)}; {subject.split.protocol}", count)
    return {
        column: SeedColumn(tuple(values), words[column][1], words[column][0], "neither")
        for column, values in found.items()
    }


def _known(subject: MeasuredRun) -> Iterator[tuple[str, Groups]]:
    """Yield the groups of items and users that the model and the data have."""
    for what, side in SIDES.items():
        if offers(subject.run.first, side.capability):
            try:
                yield what, side.groups(subject.split.interactions)
            except InputError:  # the data lack them
                continue


def _columns(vectors: Tensor, groups: Groups) -> dict[str, float]:
    what = groups.what
    few, many = (same_group(vectors, groups, k) for k in (FEW, MANY))
    if not many.chance:
        raise InputError(f"No two have the same {what}, so neighbours cannot share it.")
    drawn = same_group(torch.from_numpy(pca(vectors).points), groups, MANY)
    shown = [name for name in many.by_group if name in (*FIGURED, *AGE_BANDS)]
    return {
        near_share(what, FEW): few.share.value,
        near_share(what, MANY): many.share.value,
        map_share(what): drawn.share.value,
        random_share(what): many.chance,
        ratio_to_random(what): many.share.value / many.chance,
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
            near_share(what, FEW),
            near_share(what, MANY),
            map_share(what),
            random_share(what),
            ratio_to_random(what),
        )
    ),
    maps,
    maps={
        "same genre": _map("Neighbours of the same genre", "genre of the film", FIGURED),
        "same age": _map("Neighbours of the same age", "age of the user", AGE_BANDS),
    },
)
