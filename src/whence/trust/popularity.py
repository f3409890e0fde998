"""Popularity: do reasons name popular items more than the histories contain them?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from whence.arrays import Bools, Floats, Ints
from whence.errors import InputError
from whence.explanation import Explanation
from whence.measure import Measure, by_case, mean_over_cases
from whence.training.lists import popularity_percentiles
from whence.trust.agreement.rank_agreement import kendall, orders
from whence.trust.audit.context import CONTROL, AuditContext
from whence.trust.audit.finding import ENOUGH, Answer, Chart, Figure, Finding, clearly_positive, dot
from whence.trust.audit.stage import STAGES, Stage
from whence.trust.audit.words import (
    listed,
    percent,
    points,
    points_between,
    rounded,
    sentence,
    too_few,
)
from whence.trust.measures import MEASURES, SCORES, MeasureSpec

TOP: Final = 3


def popularity_bias(explanation: Explanation, items: Ints, counts: Ints, k: int = TOP) -> Measure:
    """Return how much more popular the top k parts are than all parts of a history: 0 is no bias.

    `items` `[B, n]` are the items in the explanation's slots, and `counts` each item's events in
    training, whose percentiles are compared. The top parts are those most in favour; tied parts
    share the remaining places. Histories with at most k parts are left out.
    """
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}.")
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
        "parts minus that of all parts"
    )
    return mean_over_cases(found, protocol, "neither", (-1.0, 1.0))


def popularity_correlation(explanation: Explanation, items: Ints, counts: Ints) -> Measure:
    """Return the mean over histories of Kendall's tau-b between importance and popularity.

    Importances rank from most in favour to most against. Histories with fewer than two parts, or
    whose parts are all equal in one of the two, are left out.
    """
    popularity = _popularity(explanation, items, counts)
    found = kendall(explanation.scores, popularity, explanation.parts)
    protocol = "mean over histories of Kendall's tau-b between the parts' importance and popularity"
    return mean_over_cases(found, protocol, "neither", (-1.0, 1.0))


def _popularity(explanation: Explanation, items: Ints, counts: Ints) -> Floats:
    """Return the percentile of the item in each slot `[B, n]`; 0 if there is no part."""
    if items.shape != explanation.parts.shape:
        raise InputError(
            f"The items have the shape {list(items.shape)} and the explanation "
            f"{list(explanation.parts.shape)}; pass the batch that was explained."
        )
    named = items[explanation.parts]
    if len(named) and not 0 <= named.min() <= named.max() < len(counts):
        raise InputError(
            f"There are counts of items 0 to {len(counts) - 1}, and the explanation has items "
            f"{named.min()} to {named.max()}; pass the counts of all items."
        )
    popularity = np.zeros(items.shape)
    popularity[explanation.parts] = popularity_percentiles(counts)[named]
    return popularity


def _lead(scores: Floats, popularity: Floats, parts: Bools, k: int) -> Floats:
    """Return the mean popularity of the top minus that of all `[B]`; NaN if all are the top."""
    top, size = shares_of_top(scores, parts, k), parts.sum(axis=1)
    with np.errstate(invalid="ignore"):
        lead: Floats = (top * popularity).sum(axis=1) / k - popularity.sum(axis=1) / size
    return np.where(size > k, lead, np.nan)


def shares_of_top(values: Floats, parts: Bools, k: int) -> Floats:
    """Return 1 for the k largest parts, else 0 `[B, n]`; tied parts share the remaining places."""
    compared = orders(values, parts)
    above = (compared < 0).sum(axis=2)
    equal = (compared == 0).sum(axis=2) - (~parts).sum(axis=1, keepdims=True)
    shares: Floats = np.where(parts, (k - above).clip(0, None) / np.maximum(equal, 1), 0.0)
    return shares.clip(max=1.0)


MEASURES.add(
    "popularity-bias",
    MeasureSpec(
        popularity_bias,
        "Are the top parts more popular than the histories they are from?",
        "neither",
        (-1.0, 1.0),
        lambda small: (small.two[0], *small.items),
    ),
)
MEASURES.add(
    "popularity-correlation",
    MeasureSpec(
        popularity_correlation,
        "Does importance correlate with popularity within a history?",
        "neither",
        (-1.0, 1.0),
        lambda small: (small.two[0], *small.items),
        "Kendall (1938)",
    ),
)


# Audit stage: a reason that everybody gets says nothing about anybody

BIASED: Final = 0.3
"""From this share of the bias of naming only popular items on, an explainer counts as biased."""
FEW: Final = 3
"""Up to this many explainers are named in a sentence."""
ALONE: Final = "popularity alone"


def find_popularity(context: AuditContext) -> Finding:
    """Compare the popularity of the top items with that of the whole histories."""
    items: Ints = context.batch.cpu().numpy()
    counts = context.split.item_counts()
    found = context.explanations
    bias = {name: popularity_bias(one, items, counts) for name, one in found.items()}
    most = popularity_bias(_by_popularity(found[CONTROL], items, counts), items, counts)
    biased = [name for name in context.explainers if _is_biased(bias[name], most)]
    strongest = max(context.explainers, key=lambda name: bias[name].value)
    answer, why = _answer(len(biased), len(context.explainers), most.n)
    named = f": {listed(biased)}" if 0 < len(biased) <= FEW else ""
    return Finding(
        answer=answer,
        summary=f"The most biased explainer is {strongest}: its top {TOP} items are "
        f"{_more(bias[strongest])} than the whole history. The {TOP} most popular items would be "
        f"{points(most.value)} more popular. {why}{named}.",
        figures=(
            *(_bias_figure(name, one) for name, one in bias.items()),
            _bias_figure(ALONE, most),
            *_correlations(found, items, counts),
        ),
        charts=(
            Chart(
                "dots",
                f"how much more popular the top {TOP} items are",
                "At 0 the top items are as popular as the whole history, as random items are. "
                f"'{ALONE}' ranks the items of each history by popularity, whatever the model "
                "does with them.",
                tuple(dot(name, one) for name, one in {**bias, ALONE: most}.items()),
            ),
        ),
        notes=(
            "An item's popularity is the share of all items with fewer events in training. A model "
            "may well depend on popular items; faithfulness shows whether it does.",
        ),
    )


def _by_popularity(explanation: Explanation, items: Ints, counts: Ints) -> Explanation:
    """Return an explanation that ranks items by popularity."""
    scores = np.where(explanation.parts, popularity_percentiles(counts)[items], 0.0)
    return replace(explanation, scores=scores)


def _is_biased(bias: Measure, most: Measure) -> bool:
    return clearly_positive(bias.interval, bias.n) and bias.value >= BIASED * most.value


def _more(bias: Measure) -> str:
    """Say how much more popular, in percentage points."""
    more = "more" if bias.value >= 0 else "less"
    return f"{points(abs(bias.value))} {more} popular"


def _bias_figure(name: str, bias: Measure) -> Figure:
    who = {CONTROL: f"{TOP} random items", ALONE: f"The {TOP} most popular items"}.get(
        name, f"The top {TOP} items by {name}"
    )
    return Figure(
        "popularity bias",
        name,
        bias,
        f"{who} are {_more(bias)} than the whole history ({points_between(bias)}).",
    )


def _correlations(found: Mapping[str, Explanation], items: Ints, counts: Ints) -> Iterator[Figure]:
    """Yield a figure per explainer that ranks items; gradients of a plain sum do not."""
    for name, said in found.items():
        with suppress(InputError):
            yield _correlation_figure(name, popularity_correlation(said, items, counts))


def _correlation_figure(name: str, tau: Measure) -> Figure:
    order = "A random order" if name == CONTROL else f"The order by {name}"
    return Figure(
        "popularity correlation",
        name,
        tau,
        f"{order} of a history's items has a rank correlation of {rounded(tau)} with their "
        "popularity; 1 is the same order, 0 no relation.",
    )


def _answer(biased: int, of: int, cases: int) -> tuple[Answer, str]:
    """Answer by how many explainers are biased."""
    if cases < ENOUGH:
        return "partly", sentence(too_few(cases, ENOUGH)).removesuffix(".")
    answer: Answer = "yes" if not biased else "no" if biased == of else "partly"
    return answer, f"{biased} of {of} explainers reach at least {percent(BIASED)} of that"


STAGES.add(
    "popularity",
    Stage(
        "Popularity",
        "Do the reasons name more than popular items?",
        find_popularity,
        (
            f"no explainer reaches {percent(BIASED)} of the bias of naming only the most popular "
            "items",
            "some do",
            "all do",
        ),
        needs=SCORES,
        needs_history=True,
    ),
    place=70,
)
