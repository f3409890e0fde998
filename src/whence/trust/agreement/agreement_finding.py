"""Agreement: explainers that contradict each other cannot all be right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product
from typing import Final

import numpy as np

from whence.arrays import Floats, Ints
from whence.errors import InputError
from whence.explanation import Explanation
from whence.measure import Direction, Measure, mean_measure, mean_over_cases
from whence.spoken import Spoken
from whence.trust.agreement.rank_agreement import TOP, centred_ranks, correlate, top_jaccard
from whence.trust.audit.context import CONTROL, AuditContext
from whence.trust.audit.finding import Answer, Chart, Figure, Finding
from whence.trust.audit.words import between, listed, percent, rounded, signed

PROTOCOL: Final = "mean over histories of Spearman's rho between the sizes of the importances"
SIDES: Final[tuple[Direction, tuple[float, float]]] = ("neither", (-1.0, 1.0))
SAME: Final = 1 - 1e-9
"""Explainers that differ in signs alone, as rollout and its signed form do, agree by making."""
STRONG: Final = 0.7
WEAK: Final = 0.3
"""The bands of Baumhauer (2021)."""

Pair = tuple[str, str]


def agreement(audited: AuditContext) -> Finding:
    """How alike every two explainers order the parts of a case, by size and whatever sign."""
    spoken = audited.spoken
    names = audited.telling
    without = [name for name in audited.explainers if name not in names]
    if len(names) < 2:
        raise InputError(
            f"Agreement needs two explainers that tell the {spoken.parts} of a {spoken.whole} "
            f"apart, and there is {f'only {names[0]}' if names else 'none'}."
        )
    found = {name: audited.explanations[name] for name in (*names, CONTROL)}
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
    chance = float(np.mean(1 / np.maximum(1, found[CONTROL].parts.sum(axis=1))))
    mean = {pair: float(np.nanmean(values)) for pair, values in rho.items()}
    figures = [
        Figure(
            "rank agreement",
            "every pair",
            overall,
            f"Two explainers order the {spoken.parts} of a {spoken.whole} alike at "
            f"{rounded(overall)} on average, where 1 is the same order and 0 no relation.",
        ),
        Figure(
            f"same first {spoken.part}",
            "every pair",
            same,
            f"Two explainers put the same {spoken.part} first in {percent(same.value)} of the "
            f"{spoken.wholes}; two random orders would in {percent(chance)}.",
        ),
        *_shared_top(found, pairs, spoken),
        *(_with_others(name, rho, spoken) for name in names),
    ]
    return Finding(
        answer=_answer(overall.value),
        summary=f"Two explainers order a {spoken.whole}'s {spoken.parts} alike at "
        f"{signed(overall.value)} (1: the same order; {_band(overall.value)}) and name the same "
        f"first {spoken.part} in {percent(same.value)} of the {spoken.wholes} (chance: "
        f"{percent(chance)}){_ends(mean, spoken)}.",
        figures=tuple(figures),
        charts=(
            Chart(
                "matrix",
                "Spearman's rho",
                f"Blue pairs order the {spoken.parts} of a {spoken.whole} alike, pale ones have "
                "nothing to do with each other, red ones contradict each other; 'random' shows "
                "what chance looks like.",
                tuple(
                    _tile(one, other, correlate(ranks[one], ranks[other]))
                    for one, other in product(found, found)
                ),
            ),
        ),
        notes=(
            *audited.parts_named(),
            f"Of the first recommendation for {len(audited.asked):,} held-out {spoken.wholes}; "
            "sizes are compared, for or against alike.",
            "Agreement is no proof: explainers can be wrong together.",
            *_left_out(without, spoken),
            *(note for name in names for note in _always_first(name, first[name], audited)),
        ),
    )


def _mean_of_pairs(rho: list[Floats]) -> Measure:
    """Over the histories that every pair ranks, the mean over pairs."""
    return mean_over_cases(np.mean(rho, axis=0), f"{PROTOCOL}; mean over pairs", *SIDES)


def _always_first(name: str, first: Ints, audited: AuditContext) -> list[str]:
    """That an explainer puts one group first whatever is asked, so that it tells no case apart."""
    called = {row[slot] for row, slot in zip(audited.groups, first, strict=False)}
    if len(called) != 1:
        return []
    return [f"{name} puts '{called.pop()}' first in every {audited.spoken.whole}."]


def _left_out(names: list[str], spoken: Spoken) -> list[str]:
    """Who has no order."""
    if not names:
        return []
    return [
        f"Left out, since all {spoken.parts} of a {spoken.whole} are equally important by it: "
        f"{listed(names)}."
    ]


def _ends(mean: Mapping[Pair, float], spoken: Spoken) -> str:
    """Which two are most alike and which least; nothing of a single pair."""
    different = [pair for pair in mean if mean[pair] < SAME]
    if len(different) < 2:
        return ""
    same = " as well as ".join(listed(pair) for pair in mean if mean[pair] >= SAME)
    apart = f", apart from {same}, which order {spoken.parts} the same," if same else ""
    closest, furthest = (choose(different, key=mean.__getitem__) for choose in (max, min))
    return (
        f"; most alike{apart} are {listed(closest)} ({signed(mean[closest])}); least alike "
        f"{listed(furthest)} ({signed(mean[furthest])})"
    )


def _shared_top(
    found: Mapping[str, Explanation], pairs: list[Pair], spoken: Spoken
) -> Iterator[Figure]:
    """The Jaccard index of the top, beside what a random order shares with an explainer.

    Where no case has more parts, all are in every top, which says nothing.
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
    chance = np.nanmean([shared(name, CONTROL) for name in found if name != CONTROL])
    yield Figure(
        "shared first three",
        "every pair",
        measure,
        f"Of the {spoken.parts} in either explainer's first three, {percent(measure.value)} are in "
        f"both ({between(measure)}); of an explainer and a random order {percent(float(chance))}.",
    )


def _first(explanation: Explanation) -> Ints:
    """`[B]`: the slot of the strongest part."""
    sizes = np.where(explanation.parts, explanation.magnitude(), -np.inf)
    first: Ints = sizes.argmax(axis=1)
    return first


def _with_others(name: str, rho: Mapping[Pair, Floats], spoken: Spoken) -> Figure:
    own = {pair: values for pair, values in rho.items() if name in pair}
    measure = _mean_of_pairs(list(own.values()))
    nearest = max(own, key=lambda pair: float(np.nanmean(own[pair])))
    (other,) = set(nearest) - {name}
    return Figure(
        "agreement with the others",
        name,
        measure,
        f"{name} orders the {spoken.parts} as the others do at {rounded(measure)} on average; most "
        f"like it is {other} ({signed(float(np.nanmean(own[nearest])))}).",
    )


def _answer(rho: float) -> Answer:
    return "yes" if rho >= STRONG else "partly" if rho >= WEAK else "no"


def _band(rho: float) -> str:
    """Where the answer lies, or the next better one."""
    return f"from {WEAK} on: partly" if rho < WEAK else f"from {STRONG} on: yes"


def _tile(one: str, other: str, rho: Floats) -> dict[str, str | float]:
    measure = mean_over_cases(rho, PROTOCOL, *SIDES)
    low, high = measure.interval
    return {"one": one, "other": other, "value": measure.value, "low": low, "high": high}
