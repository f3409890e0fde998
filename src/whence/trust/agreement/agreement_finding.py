"""Audit stage: explainers that contradict each other cannot all be right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product
from typing import Final

import numpy as np

from whence.arrays import Floats, Ints
from whence.errors import InputError
from whence.explanation import Explanation, Wording
from whence.measure import Direction, Measure, mean_measure, mean_over_cases
from whence.trust.agreement.rank_agreement import TOP, centred_ranks, correlate, top_jaccard
from whence.trust.audit.context import CONTROL, AuditContext
from whence.trust.audit.finding import Answer, Chart, Figure, Finding
from whence.trust.audit.stage import STAGES, Stage
from whence.trust.audit.words import between, listed, percent, rounded, signed
from whence.trust.measures import SCORES

PROTOCOL: Final = "mean over histories of Spearman's rho between the sizes of the importances"
RHO: Final[tuple[Direction, tuple[float, float]]] = ("neither", (-1.0, 1.0))
SAME: Final = 1 - 1e-9
"""Explainers that differ only in signs, such as rollout and signed rollout, agree by design."""
STRONG: Final = 0.7
WEAK: Final = 0.3
"""The bands of Baumhauer (2021)."""

Pair = tuple[str, str]


def find_agreement(context: AuditContext) -> Finding:
    """Compare how every two explainers rank the parts of a case by magnitude."""
    wording = context.wording
    names = context.ranking_explainers
    without = [name for name in context.explainers if name not in names]
    if len(names) < 2:
        raise InputError(
            f"Agreement needs two explainers that rank the {wording.parts} of a {wording.whole}, "
            f"and there is {f'only {names[0]}' if names else 'none'}."
        )
    found = {name: context.explanations[name] for name in (*names, CONTROL)}
    pairs = list(combinations(names, 2))
    ranks = {name: centred_ranks(one.magnitude(), one.parts) for name, one in found.items()}
    rho = {(one, other): correlate(ranks[one], ranks[other]) for one, other in pairs}
    overall = _mean_of_pairs(list(rho.values()))
    first = {name: _first(found[name]) for name in found}
    same = mean_measure(
        np.mean([first[one] == first[other] for one, other in pairs], axis=0),
        "mean over histories of the share of pairs of explainers with the same strongest part",
        direction="neither",
    )
    at_random = float(np.mean(1 / np.maximum(1, found[CONTROL].parts.sum(axis=1))))
    mean = {pair: float(np.nanmean(values)) for pair, values in rho.items()}
    figures = [
        Figure(
            "rank agreement",
            "every pair",
            overall,
            f"The rank correlation of two explainers over the {wording.parts} of a {wording.whole} "
            f"is {rounded(overall)} on average; 1 is the same order, 0 no relation.",
        ),
        Figure(
            f"same first {wording.part}",
            "every pair",
            same,
            f"Two explainers put the same {wording.part} first in {percent(same.value)} of the "
            f"{wording.wholes}; two random orders would in {percent(at_random)}.",
        ),
        *_shared_top(found, pairs, wording),
        *(_with_others(name, rho, wording) for name in names),
    ]
    return Finding(
        answer=_answer(overall.value),
        summary=f"The rank correlation of two explainers is {signed(overall.value)} on average (1 "
        f"is the same order; {_band(overall.value)}). They put the same {wording.part} first in "
        f"{percent(same.value)} of the {wording.wholes} (random: {percent(at_random)})"
        f"{_extremes(mean)}.",
        figures=tuple(figures),
        charts=(
            Chart(
                "matrix",
                "Spearman's rho",
                f"Blue pairs rank the {wording.parts} of a {wording.whole} alike, pale pairs are "
                "unrelated, and red pairs contradict each other. 'random' shows what no relation "
                "looks like.",
                tuple(
                    _tile(one, other, correlate(ranks[one], ranks[other]))
                    for one, other in product(found, found)
                ),
            ),
        ),
        notes=(
            *context.parts_named(),
            f"The first recommendation for {len(context.cases):,} held-out {wording.wholes} is "
            "explained; magnitudes are compared, whatever their sign.",
            "Agreement is no proof: explainers can be wrong together.",
            *_left_out(without, wording),
            *(note for name in names for note in _always_first(name, first[name], context)),
        ),
    )


def _mean_of_pairs(rho: list[Floats]) -> Measure:
    """Return the mean over pairs, over the histories that every pair ranks."""
    return mean_over_cases(np.mean(rho, axis=0), f"{PROTOCOL}; mean over pairs", *RHO)


def _always_first(name: str, first: Ints, context: AuditContext) -> list[str]:
    """Note that an explainer puts the same group first in every case."""
    called = {row[slot] for row, slot in zip(context.groups, first, strict=False)}
    if len(called) != 1:
        return []
    return [f"{name} puts '{called.pop()}' first in every {context.wording.whole}."]


def _left_out(names: list[str], wording: Wording) -> list[str]:
    """Note the explainers without a ranking."""
    if not names:
        return []
    return [
        f"Left out, because they find all {wording.parts} of a {wording.whole} equally important: "
        f"{listed(names)}."
    ]


def _extremes(mean: Mapping[Pair, float]) -> str:
    """Name the pairs that agree most and least; nothing for a single pair."""
    different = [pair for pair in mean if mean[pair] < SAME]
    if len(different) < 2:
        return ""
    closest, furthest = (choose(different, key=mean.__getitem__) for choose in (max, min))
    same = " as well as ".join(listed(pair) for pair in mean if mean[pair] >= SAME)
    equal = f" {same} always give the same order." if same else ""
    return (
        f".{equal} The closest pair is {listed(closest)} ({signed(mean[closest])}), the most "
        f"distant {listed(furthest)} ({signed(mean[furthest])})"
    )


def _shared_top(
    found: Mapping[str, Explanation], pairs: list[Pair], wording: Wording
) -> Iterator[Figure]:
    """Compare the top parts of every pair with those of a random order.

    If no case has more parts than the top, all parts are in it, which says nothing.
    """
    parts = found[CONTROL].parts
    if parts.sum(axis=1).max() <= TOP:
        return

    def shared(one: str, other: str) -> Floats:
        return top_jaccard(found[one].magnitude(), found[other].magnitude(), parts)

    measure = mean_over_cases(
        np.mean([shared(*pair) for pair in pairs], axis=0),
        f"mean over histories of the Jaccard index of the top {TOP} parts by size; mean over pairs",
        "neither",
        (0.0, 1.0),
    )
    at_random = np.nanmean([shared(name, CONTROL) for name in found if name != CONTROL])
    yield Figure(
        "shared first three",
        "every pair",
        measure,
        f"Two explainers share {percent(measure.value)} of the {wording.parts} in their first "
        f"three ({between(measure)}); an explainer and a random order share "
        f"{percent(float(at_random))}.",
    )


def _first(explanation: Explanation) -> Ints:
    """Return the slot of the strongest part of each case."""
    sizes = np.where(explanation.parts, explanation.magnitude(), -np.inf)
    first: Ints = sizes.argmax(axis=1)
    return first


def _with_others(name: str, rho: Mapping[Pair, Floats], wording: Wording) -> Figure:
    own = {pair: values for pair, values in rho.items() if name in pair}
    measure = _mean_of_pairs(list(own.values()))
    nearest = max(own, key=lambda pair: float(np.nanmean(own[pair])))
    (other,) = set(nearest) - {name}
    return Figure(
        "agreement with the others",
        name,
        measure,
        f"The rank correlation of {name} with the other explainers is {rounded(measure)} on "
        f"average; the closest is {other} ({signed(float(np.nanmean(own[nearest])))}).",
    )


def _answer(rho: float) -> Answer:
    return "yes" if rho >= STRONG else "partly" if rho >= WEAK else "no"


def _band(rho: float) -> str:
    """Return where the band of the next better answer starts."""
    return f"from {WEAK} on the answer is partly" if rho < WEAK else f"from {STRONG} on it is yes"


def _tile(one: str, other: str, rho: Floats) -> dict[str, str | float | None]:
    measure = mean_over_cases(rho, PROTOCOL, *RHO)
    low, high = measure.bounds
    return {"one": one, "other": other, "value": measure.value, "low": low, "high": high}


STAGES.add(
    "agreement",
    Stage(
        "Agreement",
        "Do the explainers agree with each other?",
        find_agreement,
        (
            f"the mean rank correlation is at least {STRONG}",
            f"it is at least {WEAK}",
            "it is lower",
        ),
        needs=SCORES,
        needs_reasons=True,
    ),
    place=60,
)
