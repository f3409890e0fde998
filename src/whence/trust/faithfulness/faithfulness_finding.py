"""Audit stage: recommendations must change without the parts that are called important."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from whence.contract import offers
from whence.explanation import Wording
from whence.measure import Measure, bootstrap_interval, mean_measure
from whence.trust.audit.context import AuditContext
from whence.trust.audit.finding import ENOUGH, Answer, Chart, Figure, Finding, Standing, dot
from whence.trust.audit.stage import STAGES, Stage
from whence.trust.audit.words import between, percent, rounded, too_few
from whence.trust.faithfulness.curves import SHARES, Curves, deletion_at, normalised_area
from whence.trust.faithfulness.deletion import deletion_curves, flips
from whence.trust.faithfulness.explained_item import coalition_figures, losses_without_reason
from whence.trust.measures import SCORES

FEWEST: Final = 60
SHARE: Final = 5
"""One history in five is tested, because the greedy oracle takes n²/2 inputs for each."""
SHORT: Final = 20
"""How many items of a history are read by a model that scores one item per input."""
RANDOM: Final = "random order"
ORACLE: Final = "greedy oracle"
SHOWN: Final = {RANDOM: "random", ORACLE: "best found"}
"""What the page calls them."""


def find_faithfulness(context: AuditContext) -> Finding:
    """Delete parts in the order of each explainer, in a random order and in a greedy one."""
    names, whole, wording = context.explainers, context, context.wording
    some = slice(max(FEWEST, context.n_cases // SHARE))
    if context.model.reads_history and offers(context.model, "classes"):
        context = replace(context, n_cases=some.stop, cut_to=SHORT)
    curves = deletion_curves(
        context.model,
        context.batch[some],
        [RANDOM, ORACLE, *(context.explanations[name][some] for name in names)],
        seed=context.seed,
        memory=context.memory,
    )
    shares = {name: normalised_area(curves[name], curves[RANDOM], curves[ORACLE]) for name in names}
    inputs = {name: float(context.explanations[name].evaluations.mean()) for name in names}
    ranking = _ranking(curves, shares, inputs, wording)
    best = max(ranking, key=lambda one: one.value)
    at_once = {name: _changed_by_first(one) for name, one in curves.items()}
    lost_figures, lost_charts = losses_without_reason(context, some)
    what = "probabilities" if context.model.predicts_probabilities else "predicted ratings"
    answer, why = _answer(ranking)
    return Finding(
        answer=answer,
        summary=f"Deleting {wording.parts} in the order of {best.explainer} changes the "
        f"recommendations by {percent(best.value)} of the distance between a random order and the "
        f"best found, over {len(curves[RANDOM].counts)} {wording.wholes}; {why}.",
        figures=(
            *(
                figure
                for name in (*names, RANDOM, ORACLE)
                for figure in _figures(name, curves[name], shares.get(name), at_once, wording)
            ),
            *lost_figures,
            *coalition_figures(context, some),
        ),
        charts=(
            _curves_chart(curves, wording),
            _shares_chart(shares, what),
            *lost_charts,
        ),
        notes=(
            *context.parts_named(),
            f"Tested on {len(curves[RANDOM].counts)} of the {len(whole.cases):,} {wording.wholes}"
            f"{_cut(context)}, because 'best found' tries every {wording.part} at each step and "
            f"deletes the one that changes most. {_moved(context)}, in nats.",
            f"The first recommendation is here the {_first(context)} of all items, seen or unseen. "
            f"Deleted {wording.parts} are removed by '{context.model.removal}'.",
        ),
        ranking=ranking,
    )


def _moved(context: AuditContext) -> str:
    """Say how two predictions are compared."""
    measure = "the symmetrised Kullback-Leibler divergence"
    if context.model.predicts_probabilities:
        return f"The change is {measure} between the probabilities of all items"
    return f"The change is {measure} between the softmax of the predicted ratings of all items"


def _first(context: AuditContext) -> str:
    return "most probable" if context.model.predicts_probabilities else "highest rated"


def _cut(context: AuditContext) -> str:
    return "" if context.cut_to is None else f", cut to their newest {context.cut_to} items"


def _ranking(
    curves: Mapping[str, Curves],
    shares: Mapping[str, Measure],
    inputs: Mapping[str, float],
    wording: Wording,
) -> tuple[Standing, ...]:
    """Compare the areas under the curves case by case."""
    areas = {name: one.area() for name, one in curves.items()}
    known = ~np.isnan(areas[RANDOM])
    best = max(shares, key=lambda name: shares[name].value)
    return tuple(
        Standing(
            name,
            shares[name].value,
            f"changes the recommendations, when the {wording.parts} it ranks first are deleted, by "
            f"{percent(shares[name].value)} of the distance between a random order and the best "
            "found",
            bootstrap_interval((areas[name] - areas[RANDOM])[known]),
            bootstrap_interval((areas[best] - areas[name])[known]),
            inputs[name],
            int(known.sum()),
        )
        for name in shares
    )


def _changed_by_first(curves: Curves) -> Measure:
    """Return how often the first deletion changes the first recommendation."""
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
    wording: Wording,
) -> list[Figure]:
    """Return four figures of an explainer, and three of the random and the greedy order."""
    who = SHOWN.get(name, name)
    first = {
        RANDOM: f"a random {wording.part}",
        ORACLE: f"the {wording.part} that changes most",
    }.get(name, f"the {wording.part} that {name} ranks first")
    one, ten = flips(curves).measure(), flips(curves, 10).measure()
    found = [
        Figure(
            f"first recommendation changed by one {wording.part}",
            who,
            at_once[name],
            f"Deleting {first} changes the first recommendation in "
            f"{percent(at_once[name].value)} of the {wording.wholes} ({between(at_once[name])}).",
        ),
        Figure(
            f"{wording.parts} until the first recommendation changes",
            who,
            one,
            f"Starting with {first}, {rounded(one, 1)} {wording.parts} must be deleted on average "
            "until another recommendation is first.",
        ),
        Figure(
            f"{wording.parts} until the first ten change",
            who,
            ten,
            f"Starting with {first}, {rounded(ten, 1)} {wording.parts} must be deleted on average "
            "until another recommendation is among the first ten.",
        ),
    ]
    if share is None:
        return found
    area = Figure(
        "deletion area",
        who,
        share,
        f"Deleting {wording.parts} in the order of {name} changes the recommendations by "
        f"{percent(share.value)} of the distance between a random order and the best found "
        f"({between(share)}).",
    )
    return [area, *found]


def _curves_chart(curves: Mapping[str, Curves], wording: Wording) -> Chart:
    rows = tuple(
        {"name": SHOWN.get(name, name), "x": share, "y": float(height)}
        for name, one in curves.items()
        for share, height in zip(SHARES, deletion_at(one), strict=True)
    )
    return Chart(
        "lines",
        "change of the recommendations (nats)",
        f"Each line deletes the {wording.parts} of a {wording.whole} one by one, the most "
        "important first. The sooner a line rises, the better the explainer knows what the "
        "recommendations depend on. A line falls at its end if the model without any "
        f"{wording.parts} is closer to the full {wording.whole} than with a few unimportant ones.",
        rows,
        across=f"share of the {wording.whole}'s {wording.parts} that are deleted",
    )


def _shares_chart(shares: Mapping[str, Measure], what: str) -> Chart:
    rows = [dot(name, one) for name, one in shares.items()]
    rows.append({"name": "random", "value": 0.0, "low": 0.0, "high": 0.0})
    return Chart(
        "dots",
        "deletion area, from a random order to the best found",
        "The same as one number per explainer: 0 % is a random order, 100 % the best order found. "
        f"It compares the {what} of all items. Shapley values, fading and leave-one-out explain "
        "a single recommendation, so they are lower here by design.",
        tuple(rows),
    )


def _answer(ranking: tuple[Standing, ...]) -> tuple[Answer, str]:
    """Answer by how many explainers are clearly better than random."""
    cases, of = ranking[0].cases, len(ranking)
    if cases < ENOUGH:
        return "partly", too_few(cases, ENOUGH)
    better = sum(one.better_than_random for one in ranking)
    answer: Answer = "yes" if better == of else "partly" if better else "no"
    return answer, f"{better} of {of} explainers are clearly better than a random order"


STAGES.add(
    "faithfulness",
    Stage(
        "Faithfulness",
        "Do the recommendations change without what is called important?",
        find_faithfulness,
        (
            "every explainer is clearly better than a random order",
            "some are",
            "none is",
        ),
        needs=SCORES,
        needs_reasons=True,
    ),
    place=50,
)
