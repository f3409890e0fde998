"""Popularity: do reasons name what everybody chooses, more than the histories they are of?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
from scipy.stats import rankdata

from whence.arrays import Bools, Floats, Ints
from whence.errors import InputError
from whence.explanation import Explanation
from whence.measure import Measure, by_case, mean_over_cases
from whence.trust.agreement.rank_agreement import kendall, orders
from whence.trust.audit.context import CONTROL, AuditContext
from whence.trust.audit.finding import ENOUGH, Answer, Chart, Figure, Finding, clearly_positive, dot
from whence.trust.audit.words import (
    listed,
    percent,
    points,
    points_between,
    rounded,
    sentence,
    too_few,
)

TOP: Final = 3


def popularity_bias(explanation: Explanation, items: Ints, counts: Ints, k: int = TOP) -> Measure:
    """How much more popular the k parts named first are than all parts: 0 is no bias.

    `items` `[B, n]` stand in the slots of the explanation, and `counts` are every item's events in
    training, whose percentiles are compared. First is what is most in favour; equals share the
    places that are left. A history of at most k parts names them all and is left out.
    """
    if k < 1:
        raise InputError(f"The top is at least one part, not {k}.")
    popularity = _popularity(explanation, items, counts)
    found = by_case(
        partial(_lead, k=k),
        explanation.parts,
        explanation.scores,
        popularity,
        numbers_each=items.shape[-1] ** 2,
    )
    protocol = (
        f"mean over histories of more than {k} parts of the popularity percentile of the top {k} "
        "parts less that of all parts"
    )
    return mean_over_cases(found, protocol, "neither", (-1.0, 1.0))


def popularity_correlation(explanation: Explanation, items: Ints, counts: Ints) -> Measure:
    """Whether importance goes with popularity: the mean of Kendall's tau-b within a history.

    Importances count from most in favour to most against. Histories of fewer than two parts, or
    whose parts are all equal in one of the two, have no ranking.
    """
    popularity = _popularity(explanation, items, counts)
    found = kendall(explanation.scores, popularity, explanation.parts)
    protocol = "mean over histories of Kendall's tau-b between the parts' importance and popularity"
    return mean_over_cases(found, protocol, "neither", (-1.0, 1.0))


def popularity_percentiles(counts: Ints) -> Floats:
    """`[items]`: the share of all items with fewer events, those with as many counting half."""
    percentiles: Floats = (rankdata(counts) - 0.5) / max(1, len(counts))
    return percentiles


def _popularity(explanation: Explanation, items: Ints, counts: Ints) -> Floats:
    """`[B, n]`: the percentile of the item in each slot, 0 where there is no part."""
    if items.shape != explanation.parts.shape:
        raise InputError(
            f"Items of {list(items.shape)} cases by slots are not those of an explanation of "
            f"{list(explanation.parts.shape)}."
        )
    named = items[explanation.parts]
    if len(named) and not 0 <= named.min() <= named.max() < len(counts):
        raise InputError(
            f"Popularity is known of items 0 to {len(counts) - 1}, and the explanation names "
            f"items {named.min()} to {named.max()}."
        )
    popularity = np.zeros(items.shape)
    popularity[explanation.parts] = popularity_percentiles(counts)[named]
    return popularity


def _lead(scores: Floats, popularity: Floats, parts: Bools, k: int) -> Floats:
    """`[B]`: the mean popularity of the top less that of all; NaN where all are the top."""
    top, size = shares_of_top(scores, parts, k), parts.sum(axis=1)
    with np.errstate(invalid="ignore"):
        lead: Floats = (top * popularity).sum(axis=1) / k - popularity.sum(axis=1) / size
    return np.where(size > k, lead, np.nan)


def shares_of_top(values: Floats, parts: Bools, k: int) -> Floats:
    """`[B, n]`: 1 for those of the k largest, 0 for others; equals share the places left."""
    compared = orders(values, parts)
    above = (compared < 0).sum(axis=2)
    equal = (compared == 0).sum(axis=2) - (~parts).sum(axis=1, keepdims=True)
    shares: Floats = np.where(parts, (k - above).clip(0, None) / np.maximum(equal, 1), 0.0)
    return shares.clip(max=1.0)


# Popularity: a reason that everybody is given says nothing of anybody.


FAR: Final = 0.3
"""Of the way from no bias to naming the most popular items alone, from which one is called so."""
FEW: Final = 3
"""Up to so many are named in a sentence."""
ALONE: Final = "popularity alone"


def popularity(audited: AuditContext) -> Finding:
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
