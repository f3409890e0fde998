"""Faithfulness: without the parts that are called important, the recommendations must change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from whence.contract import offers
from whence.measure import Measure, bootstrap_interval, mean_measure
from whence.spoken import Spoken
from whence.trust import Curves, deletion_at, deletion_curves, normalised_area
from whence.trust.audit.context import AuditContext
from whence.trust.audit.finding import ENOUGH, Answer, Chart, Figure, Finding, Standing, dot
from whence.trust.audit.words import between, percent, rounded, too_few
from whence.trust.faithfulness.curves import SHARES
from whence.trust.faithfulness.deletion import flips
from whence.trust.faithfulness.explained_item import foretold, lost_with_reason

FEWEST: Final = 60
SHARE: Final = 5
"""One history in so many has its items deleted: the greedy oracle takes n²/2 inputs of each."""
SHORT: Final = 20
"""Items of a history that are read of a model that judges items one by one, for which all items
take as long as so many histories."""
CHANCE: Final = "random order"
ORACLE: Final = "greedy oracle"
SHOWN: Final = {CHANCE: "random", ORACLE: "best found"}
"""What a reader knows them by."""


def faithfulness(audited: AuditContext) -> Finding:
    """Delete the parts of cases in the order of each explainer, of chance and of an oracle."""
    names, whole, spoken = audited.explainers, audited, audited.spoken
    some = slice(max(FEWEST, audited.cases // SHARE))
    if audited.model.reads_history and offers(audited.model, "classes"):
        audited = replace(audited, cases=some.stop, longest=SHORT)
    curves = deletion_curves(
        audited.model,
        audited.batch[some],
        [CHANCE, ORACLE, *(audited.explanations[name][some] for name in names)],
        seed=audited.seed,
        memory=audited.memory,
    )
    shares = {name: normalised_area(curves[name], curves[CHANCE], curves[ORACLE]) for name in names}
    inputs = {name: float(audited.explanations[name].evaluations.mean()) for name in names}
    ranking = _ranking(curves, shares, inputs, spoken)
    best = max(ranking, key=lambda one: one.value)
    at_once = {name: _changed_by_first(one) for name, one in curves.items()}
    lost_figures, lost_charts = lost_with_reason(audited, some)
    what = "probabilities" if audited.model.predicts_probabilities else "expected ratings"
    answer, told = _answer(ranking)
    return Finding(
        answer=answer,
        summary=f"Deleting {spoken.parts} in the order of {best.explainer} moves the "
        f"recommendations {percent(best.value)} of the way from a random order to the best found, "
        f"over {len(curves[CHANCE].counts)} {spoken.wholes}; {told}.",
        figures=(
            *(
                figure
                for name in (*names, CHANCE, ORACLE)
                for figure in _figures(name, curves[name], shares.get(name), at_once, spoken)
            ),
            *lost_figures,
            *foretold(audited, some),
        ),
        charts=(
            _curves_chart(curves, spoken),
            _shares_chart(shares, what),
            *lost_charts,
        ),
        notes=(
            *audited.parts_named(),
            f"Of {len(curves[CHANCE].counts)} of the {len(whole.asked):,} {spoken.wholes}"
            f"{_cut(audited)}, because 'best found' tries every {spoken.part} at each step and "
            f"deletes the one that changes most. {_moved(audited)}, in nats.",
            f"The first recommendation is here the {_first(audited)} of all items, met or not; "
            f"{spoken.parts} are left out by way of '{audited.model.removal}'.",
        ),
        ranking=ranking,
    )


def _moved(audited: AuditContext) -> str:
    """How two predictions are compared."""
    measure = "the symmetrised Kullback-Leibler divergence"
    if audited.model.predicts_probabilities:
        return f"How far the probabilities of all items move is {measure}"
    return f"How far the expected ratings of all items move is {measure} of their softmax"


def _first(audited: AuditContext) -> str:
    return "most probable" if audited.model.predicts_probabilities else "highest rated"


def _cut(audited: AuditContext) -> str:
    return "" if audited.longest is None else f", cut to their newest {audited.longest} items"


def _ranking(
    curves: Mapping[str, Curves],
    shares: Mapping[str, Measure],
    inputs: Mapping[str, float],
    spoken: Spoken,
) -> tuple[Standing, ...]:
    """By the area under the curve, compared case by case."""
    areas = {name: one.area() for name, one in curves.items()}
    known = ~np.isnan(areas[CHANCE])
    best = max(shares, key=lambda name: shares[name].value)
    return tuple(
        Standing(
            name,
            shares[name].value,
            f"moves the recommendations, when the {spoken.parts} it ranks first are left out, "
            f"{percent(shares[name].value)} of the way from a random order to the best found",
            bootstrap_interval((areas[name] - areas[CHANCE])[known]),
            bootstrap_interval((areas[best] - areas[name])[known]),
            inputs[name],
            int(known.sum()),
        )
        for name in shares
    )


def _changed_by_first(curves: Curves) -> Measure:
    """How often the first recommendation changes with the first part that goes."""
    return mean_measure(
        curves.changed[1][curves.counts > 0, 1],
        f"share of cases whose top item changes with the first deletion, parts by {curves.order}",
        "neither",
    )


def _figures(
    name: str,
    curves: Curves,
    share: Measure | None,
    at_once: Mapping[str, Measure],
    spoken: Spoken,
) -> list[Figure]:
    """Four of an explainer; chance and the oracle are what the first is measured from."""
    who = SHOWN.get(name, name)
    first = {
        CHANCE: f"a random {spoken.part}",
        ORACLE: f"the most telling {spoken.part}",
    }.get(name, f"the {spoken.part} that {name} ranks first")
    one, ten = flips(curves).measure(), flips(curves, 10).measure()
    found = [
        Figure(
            f"first recommendation changed by one {spoken.part}",
            who,
            at_once[name],
            f"Leaving out {first} changes the first recommendation in "
            f"{percent(at_once[name].value)} of the {spoken.wholes} ({between(at_once[name])}).",
        ),
        Figure(
            f"{spoken.parts} until the first recommendation changes",
            who,
            one,
            f"Beginning with {first}, {rounded(one, 1)} {spoken.parts} must go on average until "
            "another recommendation is first.",
        ),
        Figure(
            f"{spoken.parts} until the first ten change",
            who,
            ten,
            f"Beginning with {first}, {rounded(ten, 1)} {spoken.parts} must go on average until "
            "another recommendation is among the first ten.",
        ),
    ]
    if share is None:
        return found
    area = Figure(
        "deletion area",
        who,
        share,
        f"Deleting {spoken.parts} in the order of {name} moves the recommendations "
        f"{percent(share.value)} of the way from a random order to the best found "
        f"({between(share)}).",
    )
    return [area, *found]


def _curves_chart(curves: Mapping[str, Curves], spoken: Spoken) -> Chart:
    rows = tuple(
        {"name": SHOWN.get(name, name), "x": share, "y": float(height)}
        for name, one in curves.items()
        for share, height in zip(SHARES, deletion_at(one), strict=True)
    )
    return Chart(
        "lines",
        "change of the recommendations (nats)",
        f"Each line deletes the {spoken.parts} of a {spoken.whole} one by one, what an explainer "
        "calls most important first; the sooner it rises, the better the explainer knows what the "
        "recommendations rest on. Where a line falls at its end, the model that sees nothing is "
        f"nearer to the one that sees the whole {spoken.whole} than one that sees a few "
        f"unimportant {spoken.parts}.",
        rows,
        across=f"share of the {spoken.whole}'s {spoken.parts} left out",
    )


def _shares_chart(shares: Mapping[str, Measure], what: str) -> Chart:
    rows = [dot(name, one) for name, one in shares.items()]
    rows.append({"name": "random", "value": 0.0, "low": 0.0, "high": 0.0})
    return Chart(
        "dots",
        "way from a random order to the best found",
        "The same as one number each: how much of the way from chance to the best found order "
        f"an explainer goes. It compares the {what} of all items, while Shapley values, "
        "fading and leave-one-out explain one of them, so that they lie lower here by design.",
        tuple(rows),
    )


def _answer(ranking: tuple[Standing, ...]) -> tuple[Answer, str]:
    """By how many are clearly better than chance; of too few cases it cannot be told."""
    cases, of = ranking[0].cases, len(ranking)
    if cases < ENOUGH:
        return "partly", too_few(cases, ENOUGH)
    better = sum(one.better_than_random for one in ranking)
    answer: Answer = "yes" if better == of else "partly" if better else "no"
    return answer, f"{better} of {of} explainers are clearly better than chance"
