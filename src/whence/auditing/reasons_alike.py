"""Reasons of several seeds side by side: is what matters to one training what matters to another?

Of a history it is asked which items are named first. Of a few groups that says too little, since
one of them may come first in every case: there it is asked how importance is shared out among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from whence.auditing.audited import CONTROL, Audited
from whence.auditing.finding import Chart, Figure, dot
from whence.auditing.words import between, percent, rounded, signed
from whence.contract import answers_by_groups
from whence.measure import Measure
from whence.spoken import Spoken

STEADY: Final = "an explainer is steady only if it lies clearly to the {} of 'random'."


class Reasons(NamedTuple):
    """What is found, ready to be told."""

    same: float
    """How far the steadiest explainer goes from chance to the very same."""
    told: str
    """Of two trainings, to go on from them: "share …" or "differ …"."""
    figures: tuple[Figure, ...]
    chart: Chart
    notes: tuple[str, ...]


def reasons_alike(audited: Audited, measures: Mapping[str, Measure]) -> Reasons | None:
    """From the columns of `seed_stability`; nothing where no part can be a reason, or is one."""
    if not audited.methods:
        return None
    if answers_by_groups(audited.model):
        if not audited.telling:
            return None
        return _shared_out(audited, {name: measures[f"{name} KL"] for name in audited.methods})
    return _shared(
        audited,
        {name: _index(measures[f"{name} Jaccard distance %"]) for name in audited.methods},
    )


def _shared(audited: Audited, index: Mapping[str, Measure]) -> Reasons:
    """By the items that are most important."""
    spoken, chance = audited.spoken, index[CONTROL]
    best, room = max(audited.explainers, key=lambda name: index[name].value), 1 - chance.value
    return Reasons(
        (index[best].value - chance.value) / room if room > 0 else 0.0,
        f"share by {best}, the steadiest explainer, {percent(index[best].value)} of the "
        f"{spoken.parts} they find most important (chance: {percent(chance.value)})",
        tuple(_shared_figure(name, one, chance, spoken) for name, one in index.items()),
        Chart(
            "dots",
            f"most important {spoken.parts} that two trainings share",
            "Further to the right, the reasons depend less on the random seed; "
            + STEADY.format("right"),
            tuple(dot(name, one) for name, one in index.items()),
        ),
        (
            f"The most important {spoken.parts} are the top fifth of a {spoken.whole} by each "
            "explainer, for the item that came next; of two sets, the share is of all "
            f"{spoken.parts} in either (Jaccard).",
        ),
    )


def _index(distance: Measure) -> Measure:
    """The Jaccard index from the distance in per cent."""
    low, high = distance.interval
    return replace(
        distance,
        value=1 - distance.value / 100,
        interval=(1 - high / 100, 1 - low / 100),
        protocol=distance.protocol.replace("distance in per cent", "index"),
        direction="higher is better",
        range=(0.0, 1.0),
    )


def _shared_figure(method: str, index: Measure, chance: Measure, spoken: Spoken) -> Figure:
    said = (
        f"By {method}, two trainings have {percent(index.value)} of the most important "
        f"{spoken.parts} of a {spoken.whole} in common ({between(index)}); by chance it would be "
        f"{percent(chance.value)}."
    )
    if method == CONTROL:
        said = f"Two random choices of {spoken.parts} have {percent(index.value)} in common."
    return Figure(f"shared top {spoken.parts}", method, index, said)


def _shared_out(audited: Audited, apart: Mapping[str, Measure]) -> Reasons:
    """By the shares of importance that the parts have."""
    spoken, chance = audited.spoken, apart[CONTROL]
    of_chance = {name: _scaled(one, chance.value) for name, one in apart.items()}
    best = min(audited.telling, key=lambda name: of_chance[name].value)
    return Reasons(
        1 - of_chance[best].value,
        f"differ by {best}, the steadiest explainer, in how importance is shared out among the "
        f"{spoken.parts} by {percent(of_chance[best].value)} of what chance would",
        tuple(_apart_figure(name, one, chance, spoken) for name, one in apart.items()),
        Chart(
            "dots",
            "distance between two trainings, of that by chance",
            "Further to the left, the reasons depend less on the random seed; "
            + STEADY.format("left"),
            tuple(dot(name, one) for name, one in of_chance.items()),
        ),
        (
            f"Two trainings are as far apart as the shares that the {spoken.parts} of a "
            f"{spoken.whole} have of all importance, for or against alike, for the item that came "
            "next: their Kullback-Leibler divergence in nats, where 0 is the same.",
            f"An explainer by which the {spoken.parts} of every {spoken.whole} have like shares is "
            "steady without telling one from another.",
            *audited.parts_named(),
        ),
    )


def _scaled(measure: Measure, unit: float) -> Measure:
    low, high = measure.interval
    return replace(measure, value=measure.value / unit, interval=(low / unit, high / unit))


def _apart_figure(method: str, apart: Measure, chance: Measure, spoken: Spoken) -> Figure:
    said = (
        f"By {method}, two trainings share out importance among the {spoken.parts} of a "
        f"{spoken.whole} {rounded(apart)} nats apart; by chance it would be {signed(chance.value)}."
    )
    if method == CONTROL:
        said = f"Two random shares of importance are {rounded(apart)} nats apart."
    return Figure("difference of shares", method, apart, said)
