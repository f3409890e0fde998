"""Stability: a reason that another random seed would not give is an accident."""

from __future__ import annotations

from typing import Final

from whence.auditing.audited import HELD, Audited
from whence.auditing.finding import Answer, Figure, Finding
from whence.auditing.predicted_alike import predicted_alike
from whence.auditing.reasons_alike import Reasons, reasons_alike
from whence.auditing.words import between, listed, percent
from whence.measure import Measure, over_seeds
from whence.trust import seed_stability
from whence.trust.seeds import TOP

SAME: Final = 0.7
HARDLY: Final = 0.3
"""Of the way from chance to the very same."""


def stability(audited: Audited) -> Finding:
    """What models of other seeds recommend and predict, and which parts they find important."""
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
    reasons = reasons_alike(audited, measures)
    seeds = len(audited.run.models)
    lists = [] if audited.list_is_catalog else [_overlap(measures[f"top-{TOP} overlap"], audited)]
    said = predicted_alike(audited)
    told = [
        *(
            f"share {percent(one.measure.value)} of their first {TOP} recommendations"
            for one in lists
        ),
        said.told,
        *([reasons.told] if reasons else []),
    ]
    return Finding(
        answer=_answer(reasons, lists, said.relative),
        summary=f"Two of {seeds} trainings {listed(told)}.",
        figures=(*lists, *said.figures, *(reasons.figures if reasons else ())),
        charts=(*([reasons.chart] if reasons else []), *said.charts),
        notes=(
            *(reasons.notes if reasons else ()),
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


def _overlap(lists: Measure, audited: Audited) -> Figure:
    return Figure(
        f"overlap of the first {TOP}",
        audited.run.model,
        lists,
        f"Two trainings that differ only in their seed have {percent(lists.value)} of their first "
        f"{TOP} recommendations in common ({between(lists)}).",
    )


def _answer(reasons: Reasons | None, lists: list[Figure], apart: float) -> Answer:
    """By the steadiest explainer; where there is none, by the lists, or by the predictions."""
    without = lists[0].measure.value if lists else 1 - apart
    same = reasons.same if reasons else without
    return "yes" if same >= SAME else "partly" if same >= HARDLY else "no"
