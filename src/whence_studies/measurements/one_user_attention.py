"""Figure 2.14 (Jain 2019): the attention of one user, and the explanation drawn from it.

"You are recommended A because you watched B" names the item B with the most attention for A. This
measures how large that share is, whether A drops more without B than without another item, and
whether other seeds name B too.
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
"""Ranks of the explained recommendations."""
SHOWN: Final = 10
"""How many items of the history are shown."""
LARGEST: Final = {place: f"largest share, {place} recommendation" for place in PLACES}
UNIFORM = "uniform share"
DATASETS, OTHER = "drop without the named item", "drop without another item"
ALIKE, RANDOM_PICK = "same item named by two seeds", "same item named at random"
CELLS: Final = {
    (f"{number}", place): f"attention for the {place} recommendation, {number}"
    for number in range(1, SHOWN + 1)
    for place in PLACES
}
"""By the item of the history (most attended first) and the recommendation: the column."""


@dataclass(frozen=True)
class UserAttention:
    """One user's history, and every seed's attention and score drops."""

    items: Ints
    """`[n]`, the newest last."""
    targets: list[int]
    shares: Floats
    """`[S, targets, n]`: shares of attention."""
    drops: Floats
    """`[S, targets, n]`: how much the score of the target drops without the item."""

    @property
    def named(self) -> Ints:
        """`[S, targets]`: the position of the item with the most attention."""
        return np.asarray(self.shares.argmax(axis=2))


def attention_map(subject: MeasuredRun, _options: NoOptions) -> dict[str, SeedColumn]:
    """Return every seed's attention for the top recommendations of the first seed.

    The user is the first with the shortest history that can be shown, so that most of it is visible
    and it is not selected by its result.
    """
    answer = _explain(subject)
    catalog, models = subject.run.catalog, subject.run.models
    titles, explained = catalog.labels(answer.items), catalog.labels(answer.targets)
    length = len(titles)
    largest = answer.shares.max(axis=2)
    without = np.take_along_axis(answer.drops, answer.named[:, :, None], axis=2)[:, :, 0]
    others = (answer.drops.sum(axis=2) - without) / (length - 1)
    words = (
        f"1 {subject.held} event, {subject.split.protocol}: the first user among those with the "
        f"shortest history that can be shown ({length} items); explained are the top {len(PLACES)} "
        f"recommendations of seed {next(iter(models))}"
    )
    said = f"{words}, by these sentences: {_sentences(explained, titles, answer)}"
    alike = same_choice(answer.named)

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
        UNIFORM: found([1 / length] * len(models), said),
        DATASETS: found(without.mean(axis=1)),
        OTHER: found(others.mean(axis=1)),
        ALIKE: found(alike.over_seeds(), f"{words}; {alike.protocol}, jackknife over seeds"),
        RANDOM_PICK: found([1 / length] * len(models)),
        **{
            CELLS[f"{number}", place]: found(answer.shares[:, target, slot], label=titles[slot])
            for number, slot in enumerate(_shown(answer), start=1)
            for target, place in enumerate(PLACES)
        },
    }


def _explain(subject: MeasuredRun) -> UserAttention:
    first, catalog = subject.run.first, subject.run.catalog
    case = _shortest(subject, first.config.max_len)
    (targets,), (scores,) = top_unseen(first, case, first.config.max_len, len(PLACES))
    if not np.isfinite(scores).all() or len(scores) < len(PLACES):
        raise InputError(
            f"An attention map needs {len(PLACES)} recommendations, and fewer items are unseen."
        )

    def explain(method: str) -> list[Explanation]:
        return [
            reason_map(model, case, targets.tolist(), catalog, method, seed)
            for seed, model in subject.run.models.items()
        ]

    length = int(case.ends[0] - case.starts[0])
    return UserAttention(
        items=case.histories(length)[0],
        targets=targets.tolist(),
        # Without padding.
        shares=np.stack([favour_shares(one)[:, one.parts[0]] for one in explain("attention-last")]),
        drops=np.stack([one.scores[:, one.parts[0]] for one in explain("leave-one-out")]),
    )


def _shortest(subject: MeasuredRun, most: int) -> Cases:
    """Return the first held-out event, by user, with the shortest history that can be shown."""
    every = subject.split.held[subject.held]
    lengths = every.ends - every.starts
    usable = np.flatnonzero((lengths >= SHOWN) & (lengths <= most))
    if not len(usable):
        raise InputError(
            f"No {subject.held} event has a history of {SHOWN} to {most} items to show as a map."
        )
    return every[usable[[lengths[usable].argmin()]]]


def _shown(answer: UserAttention) -> list[int]:
    """Return the positions shown, most attended first; named items are always among them."""
    mean = answer.shares.mean(axis=(0, 1))
    in_sentence = np.isin(np.arange(len(mean)), answer.named[0])
    chosen = np.lexsort((mean, in_sentence))[::-1][:SHOWN]
    return sorted(chosen.tolist(), key=lambda slot: -mean[slot])


def _sentences(explained: Sequence[str], titles: Sequence[str], answer: UserAttention) -> str:
    """Return the sentences of the thesis for the first seed, each with its share of attention."""
    return ", ".join(
        f"“{title}” because of “{titles[named]}” ({100 * own[named]:.1f} %)"
        for title, named, own in zip(explained, answer.named[0], answer.shares[0], strict=True)
    )


MEASUREMENT: Final = Measurement(
    (*LARGEST.values(), UNIFORM, DATASETS, OTHER, ALIKE, RANDOM_PICK),
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
