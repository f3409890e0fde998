"""Stability: a reason that another random seed would not give is an accident."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from whence.auditing.audited import CONTROL, HELD, Audited
from whence.auditing.finding import Answer, Chart, Figure, Finding, dot
from whence.auditing.predicted_alike import predicted_alike
from whence.auditing.words import between, listed, percent, points
from whence.measure import Measure, over_seeds
from whence.trust import seed_stability
from whence.trust.seeds import TOP

SAME: Final = 0.7
HARDLY: Final = 0.3
"""Of the way from chance to the very same."""
OF_ITEMS: Final = (
    "The most important items are the top fifth of a history by each explainer, for the item that "
    "came next; of two sets, the share is of all items in either (Jaccard)."
)


def stability(audited: Audited) -> Finding:
    """What models of other seeds recommend and predict, and which items they find important."""
    columns = seed_stability(
        audited.run.models,
        audited.split,
        HELD,
        audited.methods,
        cases=audited.cases,
        seed=audited.seed,
        memory=audited.memory,
    )
    measures = {name: over_seeds(one, values) for name, (values, one) in columns.items()}
    shared = {
        method: _shared(measures[f"{method} Jaccard distance %"]) for method in audited.methods
    }
    seeds = len(audited.run.models)
    lists = [] if audited.list_is_catalog else [_overlap(measures[f"top-{TOP} overlap"], audited)]
    said = predicted_alike(audited)
    steadiest = _steadiest(audited, shared)
    told = [
        *(
            f"share {percent(one.measure.value)} of their first {TOP} recommendations"
            for one in lists
        ),
        f"differ by {points(said.difference.value)} in the probability they give to what came next",
        *steadiest,
    ]
    return Finding(
        answer=_answer(audited, shared, lists, said.relative),
        summary=f"Two of {seeds} trainings {listed(told)}.",
        figures=(
            *lists,
            *said.figures,
            *(_figure(method, measure, shared[CONTROL]) for method, measure in shared.items()),
        ),
        charts=(*([_shared_chart(shared)] if shared else []), *said.charts),
        notes=(
            *([OF_ITEMS] if shared else []),
            f"Intervals are over the {seeds} seeds (jackknife).",
            *(
                []
                if lists
                else [
                    f"A list of {TOP} has all that is left of the catalog, so that "
                    "recommendations are not compared."
                ]
            ),
        ),
    )


def _steadiest(audited: Audited, shared: Mapping[str, Measure]) -> list[str]:
    """What the steadiest explainer finds; nothing where no history is read."""
    if not shared:
        return []
    best = max(audited.explainers, key=lambda name: shared[name].value)
    return [
        f"share by {best}, the steadiest explainer, {percent(shared[best].value)} of the items "
        f"they find most important (chance: {percent(shared[CONTROL].value)})"
    ]


def _shared_chart(shared: Mapping[str, Measure]) -> Chart:
    return Chart(
        "dots",
        "most important items that two trainings share",
        "Further to the right, the reasons depend less on the random seed; an explainer is steady "
        "only if it lies clearly to the right of 'random'.",
        tuple(dot(name, one) for name, one in shared.items()),
    )


def _overlap(lists: Measure, audited: Audited) -> Figure:
    return Figure(
        f"overlap of the first {TOP}",
        audited.run.model,
        lists,
        f"Two trainings that differ only in their seed have {percent(lists.value)} of their first "
        f"{TOP} recommendations in common ({between(lists)}).",
    )


def _shared(distance: Measure) -> Measure:
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


def _figure(method: str, measure: Measure, chance: Measure) -> Figure:
    said = (
        f"By {method}, two trainings have {percent(measure.value)} of the most important items of "
        f"a history in common ({between(measure)}); by chance it would be {percent(chance.value)}."
    )
    if method == CONTROL:
        said = f"Two random choices of items have {percent(measure.value)} in common."
    return Figure("shared top items", method, measure, said)


def _answer(
    audited: Audited, shared: Mapping[str, Measure], lists: list[Figure], apart: float
) -> Answer:
    """By the steadiest explainer; where there is none, by the lists, or by the predictions."""
    if shared:
        best = max(shared[name].value for name in audited.explainers)
        chance = shared[CONTROL].value
        same = (best - chance) / (1 - chance) if chance < 1 else 0.0
    else:
        same = lists[0].measure.value if lists else 1 - apart
    return "yes" if same >= SAME else "partly" if same >= HARDLY else "no"
