"""Audit stage: a reason that depends on the random seed is an accident."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import torch

from whence.arrays import Floats
from whence.contract import offers
from whence.explanation import Wording
from whence.measure import Measure, over_seeds
from whence.memory import cases_at_once, questions_at_once, row_slices
from whence.models import Recommender
from whence.ranking import batch_and_targets, score_all
from whence.trust.audit.context import CONTROL, HELD, AuditContext
from whence.trust.audit.finding import Answer, Chart, Figure, Finding, dot
from whence.trust.audit.stage import STAGES, Stage
from whence.trust.audit.words import (
    between,
    listed,
    percent,
    points,
    points_between,
    rounded,
    signed,
)
from whence.trust.bins import Binned, EqualMass, binned
from whence.trust.measures import SCORES
from whence.trust.stability.class_stability import DIFFERENCE, class_stability
from whence.trust.stability.seed_pairs import SeedPairs, prediction_difference, rating_difference
from whence.trust.stability.seed_stability import TOP, seed_stability

SAME: Final = 0.7
HARDLY: Final = 0.3
"""How similar the reasons are, from 0 for random to 1 for the same."""


def find_stability(context: AuditContext) -> Finding:
    """Compare what models of all seeds recommend, predict and find important."""
    columns = seed_stability(
        context.models,
        context.split,
        HELD,
        context.methods,
        cases=context.n_cases,
        seed=context.seed,
        memory=context.memory,
    )
    measures = {name: over_seeds(one, values) for name, (values, one) in columns.items()}
    reasons = compare_reasons(context, measures)
    seeds = len(context.run.models)
    lists = [] if context.list_is_catalog else [_overlap(measures[f"top-{TOP} overlap"], context)]
    predictions = compare_predictions(context)
    said = [
        *(
            f"share {percent(one.measure.value)} of their first {TOP} recommendations"
            for one in lists
        ),
        predictions.summary,
        *([reasons.summary] if reasons else []),
    ]
    return Finding(
        answer=_answer(reasons, lists, predictions.relative),
        summary=f"Models of two of the {seeds} seeds {listed(said)}.",
        figures=(*lists, *predictions.figures, *(reasons.figures if reasons else ())),
        charts=(*([reasons.chart] if reasons else []), *predictions.charts),
        notes=(
            *(reasons.notes if reasons else ()),
            f"The intervals are over the {seeds} seeds (jackknife).",
            *(
                []
                if lists
                else [
                    f"A list of {TOP} holds everything that is left to recommend, so the lists "
                    "are not compared."
                ]
            ),
        ),
    )


def _overlap(lists: Measure, context: AuditContext) -> Figure:
    return Figure(
        f"overlap of the first {TOP}",
        context.run.model,
        lists,
        f"Two models that differ only in their seed share {percent(lists.value)} of their first "
        f"{TOP} recommendations ({between(lists)}).",
    )


def _answer(reasons: ReasonStability | None, lists: list[Figure], difference: float) -> Answer:
    """Answer by the most stable explainer, or else by the lists, or else by the predictions."""
    without = lists[0].measure.value if lists else 1 - difference
    same = reasons.same if reasons else without
    return "yes" if same >= SAME else "partly" if same >= HARDLY else "no"


STAGES.add(
    "stability",
    Stage(
        "Stability",
        "Would another seed recommend the same, for the same reasons?",
        find_stability,
        (
            f"the most stable explainer reaches {percent(SAME)} of the way from random reasons to "
            "the same",
            f"{percent(HARDLY)}",
            "less",
        ),
        needs=SCORES,
        min_seeds=3,
    ),
    place=80,
)


# Predictions

INDEX, KL = "Jaccard index", "KL"
BINS: Final = 10
SHOWN: Final = {
    DIFFERENCE: "difference of predictions",
    INDEX: "shared most attended items",
    KL: "difference of attention (KL)",
}
"""What the page calls them."""


class PredictionStability(NamedTuple):
    """How much the predictions of two seeds differ."""

    relative: float
    """The mean difference relative to the mean probability, or to the spread of ratings."""
    summary: str
    """A phrase that follows "models of two seeds"."""
    figures: tuple[Figure, ...]
    charts: tuple[Chart, ...]


def compare_predictions(context: AuditContext) -> PredictionStability:
    """Compare what every seed of the run predicts for the item that came next."""
    if context.model.predicts_probabilities:
        return _compare_probabilities(context)
    return _compare_ratings(context)


def _compare_ratings(context: AuditContext) -> PredictionStability:
    """Compare the predicted ratings, in points."""
    models = context.run.models.values()
    ratings = np.stack([_scores(context, model) for model in models])
    pairs = rating_difference(ratings)
    difference = over_seeds(pairs.measure(), pairs.over_seeds())
    spread = float(ratings.std(axis=1).mean())
    figure = Figure(
        "difference of predicted ratings",
        context.run.model,
        difference,
        f"The ratings that models of two seeds predict for the next item differ by "
        f"{rounded(difference)} rating points on average; the predictions of one model for "
        f"different {context.wording.wholes} have a standard deviation of {spread:.2f}.",
    )
    summary = (
        f"differ by {difference.value:.2f} points in the rating they predict for the next item"
    )
    relative = difference.value / spread if spread else 0.0
    return PredictionStability(relative, summary, (figure,), ())


@torch.no_grad()
def _scores(context: AuditContext, model: Recommender) -> Floats:
    """Return the score of the next item by one seed `[B]`."""
    pieces = []
    for some in row_slices(len(context.cases), questions_at_once(context.max_len, 1)):
        batch, targets = batch_and_targets(model, context.cases[some], context.max_len)
        pieces.append(model.score(batch, targets[:, None])[:, 0].cpu())
    found: Floats = torch.cat(pieces).double().numpy()
    return found


def _compare_probabilities(context: AuditContext) -> PredictionStability:
    """Compare the probability of the next item by every seed."""
    classes = offers(context.model, "classes")
    pairs, lines, mean = _class_probabilities(context) if classes else _softmax(context)
    measures = {name: over_seeds(one.measure(), one.over_seeds()) for name, one in pairs.items()}
    difference = measures[DIFFERENCE]
    model = context.run.model
    figures = [
        Figure(
            DIFFERENCE,
            model,
            difference,
            f"The probabilities of the next item by models of two seeds differ by "
            f"{points(difference.value)} on average ({points_between(difference)}); their mean is "
            f"{percent(mean)}.",
        )
    ]
    if INDEX in measures:
        index = measures[INDEX]
        figures.append(
            Figure(
                "shared most attended items",
                model,
                index,
                f"Models of two seeds share {percent(index.value)} of the tenth of a history that "
                f"gets most attention ({between(index)}).",
            )
        )
    if KL in measures:
        figures.append(
            Figure(
                "difference of attention",
                model,
                measures[KL],
                "How models of two seeds distribute attention over a history differs by "
                f"{rounded(measures[KL])} nats (KL divergence; 0 is the same).",
            )
        )
    relative = difference.value / mean if mean else 0.0
    summary = f"differ by {points(difference.value)} in the probability of the next item"
    return PredictionStability(relative, summary, tuple(figures), (_chart(lines),))


def _class_probabilities(
    context: AuditContext,
) -> tuple[dict[str, SeedPairs], dict[str, Binned], float]:
    """Compare the classes, and the attention if the models have any."""
    batch, targets = batch_and_targets(context.model, context.cases, context.max_len)
    models = list(context.run.models.values())
    found = class_stability(models, batch, targets[:, None], memory=context.memory)
    pairs = {name: found.pairs[name] for name in SHOWN if name in found.pairs}
    lines = found.by_prediction(seed=context.seed)
    return pairs, {name: lines[name] for name in pairs}, float(found.liked.mean())


def _softmax(context: AuditContext) -> tuple[dict[str, SeedPairs], dict[str, Binned], float]:
    """Compare the softmax over all items."""
    p = np.stack([_probabilities(context, model) for model in context.run.models.values()])
    pairs, mean = prediction_difference(p), p.mean(axis=0)
    line = binned(pairs.cases, mean, EqualMass(BINS), protocol=pairs.protocol, seed=context.seed)
    return {DIFFERENCE: pairs}, {DIFFERENCE: line}, float(mean.mean())


def _probabilities(context: AuditContext, model: Recommender) -> Floats:
    """Return the probability of the next item by one seed `[B]`."""
    cases, max_len = context.cases, min(context.max_len, model.config.max_len)
    pieces = []
    for some in row_slices(len(cases), cases_at_once(context.split.interactions.item_count)):
        log_p = score_all(model, cases[some], max_len).log_softmax(dim=1).cpu()
        pieces.append(log_p.gather(1, torch.from_numpy(cases.targets[some])[:, None])[:, 0].exp())
    found: Floats = torch.cat(pieces).double().numpy().clip(0.0, 1.0)
    return found


def _chart(lines: Mapping[str, Binned]) -> Chart:
    return Chart(
        "bins",
        "differences between two seeds",
        "How much the probabilities of the next item by two seeds differ, by their mean"
        + (
            ", together with the share of most attended items in common and the difference of "
            "their attention. Predictions may be stable where attention is not"
            if INDEX in lines
            else ""
        )
        + ". Bands are 95 % intervals over users.",
        tuple(
            {"panel": SHOWN[name], "line": SHOWN[name], **row}
            for name, one in lines.items()
            for row in one.rows()
        ),
        across="mean probability of the next item",
    )


# Reasons

STABLE: Final = "an explainer is stable only if it lies clearly to the {} of 'random'."


class ReasonStability(NamedTuple):
    """How similar the reasons of two seeds are."""

    same: float
    """For the most stable explainer, from 0 for random to 1 for the same."""
    summary: str
    """A phrase that follows "models of two seeds"."""
    figures: tuple[Figure, ...]
    chart: Chart
    notes: tuple[str, ...]


def compare_reasons(
    context: AuditContext, measures: Mapping[str, Measure]
) -> ReasonStability | None:
    """Compare reasons by the columns of `seed_stability`; `None` if there are no reasons."""
    if not context.methods:
        return None
    if offers(context.model, "part_names"):
        if not context.ranking_explainers:
            return None
        return _compare_shares(context, {name: measures[f"{name} KL"] for name in context.methods})
    return _compare_top(
        context,
        {name: _index(measures[f"{name} Jaccard distance %"]) for name in context.methods},
    )


def _compare_top(context: AuditContext, index: Mapping[str, Measure]) -> ReasonStability:
    """Compare the most important items."""
    wording, random = context.wording, index[CONTROL]
    best, room = max(context.explainers, key=lambda name: index[name].value), 1 - random.value
    return ReasonStability(
        (index[best].value - random.value) / room if room > 0 else 0.0,
        f"share {percent(index[best].value)} of the most important {wording.parts} by {best}, the "
        f"most stable explainer (random: {percent(random.value)})",
        tuple(_top_figure(name, one, random, wording) for name, one in index.items()),
        Chart(
            "dots",
            f"most important {wording.parts} that two seeds share",
            "Further right, the reasons depend less on the random seed; " + STABLE.format("right"),
            tuple(dot(name, one) for name, one in index.items()),
        ),
        (
            f"The most important {wording.parts} are the top fifth of a {wording.whole} by each "
            "explainer, for the item that came next. The share of two sets is their Jaccard index.",
        ),
    )


def _index(distance: Measure) -> Measure:
    """Return the Jaccard index from the distance in per cent."""
    low, high = distance.interval
    return replace(
        distance,
        value=1 - distance.value / 100,
        interval=(1 - high / 100, 1 - low / 100),
        protocol=distance.protocol.replace("distance in per cent", "index"),
        direction="higher is better",
        range=(0.0, 1.0),
    )


def _top_figure(method: str, index: Measure, random: Measure, wording: Wording) -> Figure:
    said = (
        f"By {method}, models of two seeds share {percent(index.value)} of the most important "
        f"{wording.parts} of a {wording.whole} ({between(index)}); random importances share "
        f"{percent(random.value)}."
    )
    if method == CONTROL:
        said = f"Two random choices of {wording.parts} share {percent(index.value)}."
    return Figure(f"shared top {wording.parts}", method, index, said)


def _compare_shares(context: AuditContext, kl: Mapping[str, Measure]) -> ReasonStability:
    """Compare the parts' shares of importance."""
    wording, random = context.wording, kl[CONTROL]
    relative = {name: _scaled(one, random.value) for name, one in kl.items()}
    best = min(context.ranking_explainers, key=lambda name: relative[name].value)
    return ReasonStability(
        1 - relative[best].value,
        f"distribute importance over the {wording.parts} by {best}, the most stable explainer, "
        f"with {percent(relative[best].value)} of the difference of random importances",
        tuple(_share_figure(name, one, random, wording) for name, one in kl.items()),
        Chart(
            "dots",
            "difference between two seeds, relative to random importances",
            "Further left, the reasons depend less on the random seed; " + STABLE.format("left"),
            tuple(dot(name, one) for name, one in relative.items()),
        ),
        (
            "The difference of two seeds is the Kullback-Leibler divergence in nats between the "
            f"shares of importance of the {wording.parts} of a {wording.whole}, whatever their "
            "sign, for the item that came next; 0 is the same.",
            f"An explainer that gives all {wording.parts} similar shares in every {wording.whole} "
            "is stable, but says little.",
            *context.parts_named(),
        ),
    )


def _scaled(measure: Measure, unit: float) -> Measure:
    low, high = measure.interval
    return replace(measure, value=measure.value / unit, interval=(low / unit, high / unit))


def _share_figure(method: str, kl: Measure, random: Measure, wording: Wording) -> Figure:
    said = (
        f"By {method}, the shares of importance of the {wording.parts} of a {wording.whole} differ "
        f"by {rounded(kl)} nats between two seeds; random importances differ by "
        f"{signed(random.value)}."
    )
    if method == CONTROL:
        said = f"Random shares of importance differ by {rounded(kl)} nats."
    return Figure("difference of shares", method, kl, said)
