"""The attention map of one user (Jain 2019, Figure 2.14), and what its sentence is worth.

"You are recommended A because you watched B": B is what has most of A's attention. How much is
that? Does A fall further without B than without another, and would another seed name B, too?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from whence.arrays import Floats, Ints
from whence.data.histories import Cases
from whence.errors import InputError
from whence.explanation import Explanation
from whence.maps import reason_map
from whence.maps.reason_map import favour_shares
from whence.ranking import top_unseen
from whence.trust.stability.seed_pairs import same_choice
from whence_studies.measurements.measurement import (
    HeatMap,
    MeasuredRun,
    Measurement,
    NoOptions,
    SeedColumn,
)

PLACES: Final = ("1st", "2nd", "3rd", "4th", "5th")
"""Of the recommended items that are explained."""
SHOWN: Final = 10
"""Items of the history."""
LARGEST: Final = {place: f"largest share, {place} recommendation" for place in PLACES}
EVEN = "uniform share"
DATASETS, OTHER = "drop without the named item", "drop without another item"
ALIKE, BY_CHANCE = "same item named by two seeds", "same item named at random"
CELLS: Final = {
    (f"{number}", place): f"attention for the {place} recommendation, {number}"
    for number in range(1, SHOWN + 1)
    for place in PLACES
}
"""By the item of the history, the most attended first, and the target: the column."""


@dataclass(frozen=True)
class UserAttention:
    """One user's history, and of each seed what every item of it is to every target."""

    items: Ints
    """`[n]`, the newest last."""
    targets: list[int]
    shares: Floats
    """`[S, targets, n]`: of attention."""
    falls: Floats
    """`[S, targets, n]`: how far the target's score falls without the item."""

    @property
    def named(self) -> Ints:
        """`[S, targets]`: the place of the item with the most attention."""
        return np.asarray(self.shares.argmax(axis=2))


def attention_map(asked: MeasuredRun, _how: NoOptions) -> dict[str, SeedColumn]:
    """What every seed attends to for the items that the first seed recommends first.

    The user is the first of those with the shortest history that can be shown, whatever comes out,
    so that most of the map is seen.
    """
    asking = _ask(asked)
    catalog, models = asked.run.catalog, asked.run.models
    titles, explained = catalog.labels(asking.items), catalog.labels(asking.targets)
    length = len(titles)
    largest = asking.shares.max(axis=2)
    without = np.take_along_axis(asking.falls, asking.named[:, :, None], axis=2)[:, :, 0]
    others = (asking.falls.sum(axis=2) - without) / (length - 1)
    words = (
        f"1 {asked.held} event, {asked.split.protocol}: the first user among those with the "
        f"shortest history that can be shown ({length} items); explained are the top {len(PLACES)} "
        f"recommendations of seed {next(iter(models))}"
    )
    said = f"{words}, by these sentences: {_sentences(explained, titles, asking)}"
    alike = same_choice(asking.named)

    def found(
        values: Sequence[float] | Floats, protocol: str = words, label: str | None = None
    ) -> SeedColumn:
        per_seed = tuple(float(value) for value in values)
        return SeedColumn(per_seed, 1, protocol, "neither", label)

    return {
        **{
            column: found(own, said, title)
            for column, own, title in zip(LARGEST.values(), largest.T, explained, strict=True)
        },
        EVEN: found([1 / length] * len(models), said),
        DATASETS: found(without.mean(axis=1)),
        OTHER: found(others.mean(axis=1)),
        ALIKE: found(alike.over_seeds(), f"{words}; {alike.protocol}, jackknife over seeds"),
        BY_CHANCE: found([1 / length] * len(models)),
        **{
            CELLS[f"{number}", place]: found(asking.shares[:, target, slot], label=titles[slot])
            for number, slot in enumerate(_shown(asking), start=1)
            for target, place in enumerate(PLACES)
        },
    }


def _ask(asked: MeasuredRun) -> UserAttention:
    first, catalog = asked.run.first, asked.run.catalog
    case = _shortest(asked, first.config.max_len)
    (targets,), (scores,) = top_unseen(first, case, first.config.max_len, len(PLACES))
    if not np.isfinite(scores).all() or len(scores) < len(PLACES):
        raise InputError(
            f"A map of attention explains {len(PLACES)} items, and fewer are left to recommend."
        )

    def told(method: str) -> list[Explanation]:
        return [
            reason_map(model, case, targets.tolist(), catalog, method, seed)
            for seed, model in asked.run.models.items()
        ]

    length = int(case.ends[0] - case.starts[0])
    return UserAttention(
        items=case.histories(length)[0],
        targets=targets.tolist(),
        # Without what only fills the history up.
        shares=np.stack([favour_shares(one)[:, one.parts[0]] for one in told("attention-last")]),
        falls=np.stack([one.scores[:, one.parts[0]] for one in told("leave-one-out")]),
    )


def _shortest(asked: MeasuredRun, most: int) -> Cases:
    """The first held-out event, by user, of those with the shortest history that can be shown."""
    every = asked.split.held[asked.held]
    lengths = every.ends - every.starts
    usable = np.flatnonzero((lengths >= SHOWN) & (lengths <= most))
    if not len(usable):
        raise InputError(
            f"No {asked.held} event has a history of {SHOWN} to {most} items to show as a map."
        )
    return every[usable[[lengths[usable].argmin()]]]


def _shown(asking: UserAttention) -> list[int]:
    """The items of the map, the most attended first; those that the sentences name are of them."""
    mean = asking.shares.mean(axis=(0, 1))
    in_sentence = np.isin(np.arange(len(mean)), asking.named[0])
    chosen = np.lexsort((mean, in_sentence))[::-1][:SHOWN]
    return sorted(chosen.tolist(), key=lambda slot: -mean[slot])


def _sentences(explained: Sequence[str], titles: Sequence[str], asking: UserAttention) -> str:
    """As the thesis has them, of the first seed, each with the share it rests on."""
    return ", ".join(
        f"“{title}” because of “{titles[named]}” ({100 * own[named]:.1f} %)"
        for title, named, own in zip(explained, asking.named[0], asking.shares[0], strict=True)
    )


MEASUREMENT: Final = Measurement(
    (*LARGEST.values(), EVEN, DATASETS, OTHER, ALIKE, BY_CHANCE),
    attention_map,
    maps={
        "attention": HeatMap(
            title="Attention of one user",
            down="items of the history, the most attended first",
            across="recommended items",
            value="share of attention",
            cells=CELLS,
            titles=LARGEST,
        )
    },
)
