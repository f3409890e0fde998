"""Popularity: a reason that everybody is given says nothing of anybody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np

from whence.auditing.audited import CONTROL, Audited, Ints
from whence.auditing.finding import ENOUGH, Answer, Chart, Figure, Finding, clearly_positive, dot
from whence.auditing.words import (
    listed,
    percent,
    points,
    points_between,
    rounded,
    sentence,
    too_few,
)
from whence.errors import InputError
from whence.explanation import Explanation
from whence.measure import Measure
from whence.trust.popularity import (
    TOP,
    popularity_bias,
    popularity_correlation,
    popularity_percentiles,
)

FAR: Final = 0.3
"""Of the way from no bias to naming the most popular items alone, from which one is called so."""
FEW: Final = 3
"""Up to so many are named in a sentence."""
ALONE: Final = "popularity alone"


def popularity(audited: Audited) -> Finding:
    """How much more popular the items named first are than the histories they are of."""
    items: Ints = audited.batch.cpu().numpy()
    counts = audited.split.item_counts()
    found = audited.explanations
    bias = {name: popularity_bias(one, items, counts) for name, one in found.items()}
    most = popularity_bias(_by_popularity(found[CONTROL], items, counts), items, counts)
    far = [name for name in audited.explainers if _goes_far(bias[name], most)]
    strongest = max(audited.explainers, key=lambda name: bias[name].value)
    answer, told = _answer(len(far), len(audited.explainers), most.n)
    named = f": {listed(far)}" if 0 < len(far) <= FEW else ""
    return Finding(
        answer=answer,
        summary=f"The {TOP} items that {strongest} names first are {_more(bias[strongest])} than "
        f"the history they are of, more than by any other explainer; the {TOP} most popular would "
        f"be {points(most.value)} above it. {told}{named}.",
        figures=(
            *(_bias_figure(name, one) for name, one in bias.items()),
            _bias_figure(ALONE, most),
            *_correlations(found, items, counts),
        ),
        charts=(
            Chart(
                "dots",
                f"how much more popular the first {TOP} are",
                "At 0 the items named first are as popular as the whole history, as chance would "
                f"have them; '{ALONE}' names the most popular items of each history, whatever the "
                "model makes of them.",
                tuple(dot(name, one) for name, one in {**bias, ALONE: most}.items()),
            ),
        ),
        notes=(
            "An item's popularity is the share of all items with fewer events in training. A model "
            "may well rest on popular items; whether it does is what faithfulness tells.",
        ),
    )


def _by_popularity(explanation: Explanation, items: Ints, counts: Ints) -> Explanation:
    """What names popular items, whatever the model does with them."""
    scores = np.where(explanation.parts, popularity_percentiles(counts)[items], 0.0)
    return replace(explanation, scores=scores)


def _goes_far(bias: Measure, most: Measure) -> bool:
    return clearly_positive(bias.interval, bias.n) and bias.value >= FAR * most.value


def _more(bias: Measure) -> str:
    """In percentage points of popularity."""
    more = "more" if bias.value >= 0 else "less"
    return f"{points(abs(bias.value))} {more} popular"


def _bias_figure(name: str, bias: Measure) -> Figure:
    who = {CONTROL: f"{TOP} random items", ALONE: f"The {TOP} most popular items"}.get(
        name, f"The {TOP} items that {name} names first"
    )
    return Figure(
        "popularity bias",
        name,
        bias,
        f"{who} are {_more(bias)} than the history they are of ({points_between(bias)}).",
    )


def _correlations(found: Mapping[str, Explanation], items: Ints, counts: Ints) -> Iterator[Figure]:
    """But of who calls all items of a history alike, as gradients of a plain sum do."""
    for name, said in found.items():
        with suppress(InputError):
            yield _correlation_figure(name, popularity_correlation(said, items, counts))


def _correlation_figure(name: str, tau: Measure) -> Figure:
    order = "A random order" if name == CONTROL else f"The order by {name}"
    return Figure(
        "popularity correlation",
        name,
        tau,
        f"{order} of a history's items and their order by popularity go together at "
        f"{rounded(tau)}, where 1 is the same order and 0 no relation.",
    )


def _answer(far: int, of: int, cases: int) -> tuple[Answer, str]:
    """By how many explainers go far; of too few histories it cannot be told."""
    if cases < ENOUGH:
        return "partly", sentence(too_few(cases, ENOUGH)).removesuffix(".")
    answer: Answer = "yes" if not far else "no" if far == of else "partly"
    return answer, f"{far} of {of} explainers go {percent(FAR)} of that way or further"
