"""Stability: a reason that another random seed would not give is an accident."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import torch

from whence.arrays import Floats
from whence.contract import offers
from whence.measure import Measure, over_seeds
from whence.memory import cases_at_once, questions_at_once, row_slices
from whence.models import Recommender
from whence.ranking import batch_and_targets, score_all
from whence.spoken import Spoken
from whence.trust import seed_stability
from whence.trust.audit.context import CONTROL, HELD, AuditContext
from whence.trust.audit.finding import Answer, Chart, Figure, Finding, dot
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
from whence.trust.stability.class_stability import DIFFERENCE, class_stability
from whence.trust.stability.seed_pairs import SeedPairs, prediction_difference, rating_difference
from whence.trust.stability.seed_stability import TOP

SAME: Final = 0.7
HARDLY: Final = 0.3
"""Of the way from chance to the very same."""


def stability(audited: AuditContext) -> Finding:
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


def _overlap(lists: Measure, audited: AuditContext) -> Figure:
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


# Predictions of several seeds side by side: how sure is each that what came next would come?


INDEX, KL = "Jaccard index", "KL"
BINS: Final = 10
SHOWN: Final = {
    DIFFERENCE: "difference of predictions",
    INDEX: "shared items of most attention",
    KL: "distance of attention (KL)",
}
"""What a reader knows them by."""


class Alike(NamedTuple):
    """What is found, ready to be told."""

    difference: Measure
    """|p₁ − p₂| of every two seeds, or of the ratings they expect."""
    relative: float
    """The same as a share of the mean probability, or of how far ratings of cases spread."""
    told: str
    """What two trainings do, in a few words."""
    figures: tuple[Figure, ...]
    charts: tuple[Chart, ...]


def predicted_alike(audited: AuditContext) -> Alike:
    """What every seed of the run says of the item that came next."""
    return _sure_alike(audited) if audited.model.predicts_probabilities else _rated_alike(audited)


def _rated_alike(audited: AuditContext) -> Alike:
    """The rating that is expected of it, in points."""
    models = audited.run.models.values()
    ratings = np.stack([_scores(audited, model) for model in models])
    pairs = rating_difference(ratings)
    difference = over_seeds(pairs.measure(), pairs.over_seeds())
    spread = float(ratings.std(axis=1).mean())
    figure = Figure(
        "difference of expected ratings",
        audited.run.model,
        difference,
        f"The ratings that two trainings expect of the item that came next differ by "
        f"{rounded(difference)} rating points on average; those that one training expects of "
        f"different {audited.spoken.wholes} have a standard deviation of {spread:.2f}.",
    )
    told = f"differ by {difference.value:.2f} points in the rating they expect of what came next"
    return Alike(difference, difference.value / spread if spread else 0.0, told, (figure,), ())


@torch.no_grad()
def _scores(audited: AuditContext, model: Recommender) -> Floats:
    """`[B]`: of the item that came next, by one seed."""
    pieces = []
    for some in row_slices(len(audited.asked), questions_at_once(audited.length, 1)):
        batch, targets = batch_and_targets(model, audited.asked[some], audited.length)
        pieces.append(model.score(batch, targets[:, None])[:, 0].cpu())
    found: Floats = torch.cat(pieces).double().numpy()
    return found


def _sure_alike(audited: AuditContext) -> Alike:
    """The probability of that item by every seed, and by their mean."""
    judged = offers(audited.model, "classes")
    pairs, lines, mean = _judged(audited) if judged else _foreseen(audited)
    measures = {name: over_seeds(one.measure(), one.over_seeds()) for name, one in pairs.items()}
    difference = measures[DIFFERENCE]
    model = audited.run.model
    figures = [
        Figure(
            DIFFERENCE,
            model,
            difference,
            f"Two trainings give the item that came next probabilities that differ by "
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
                f"Of the tenth of a history that gets most attention, two trainings share "
                f"{percent(index.value)} ({between(index)}).",
            )
        )
    if KL in measures:
        figures.append(
            Figure(
                "distance of attention",
                model,
                measures[KL],
                "How two trainings share their attention out among a history differs by "
                f"{rounded(measures[KL])} nats (KL divergence, where 0 is the same).",
            )
        )
    relative = difference.value / mean if mean else 0.0
    told = f"differ by {points(difference.value)} in the probability they give to what came next"
    return Alike(difference, relative, told, tuple(figures), (_chart(lines),))


def _judged(audited: AuditContext) -> tuple[dict[str, SeedPairs], dict[str, Binned], float]:
    """By the classes of models that have them, with their attention where they have any."""
    batch, targets = batch_and_targets(audited.model, audited.asked, audited.length)
    models = list(audited.run.models.values())
    found = class_stability(models, batch, targets[:, None], memory=audited.memory)
    pairs = {name: found.pairs[name] for name in SHOWN if name in found.pairs}
    lines = found.by_prediction(seed=audited.seed)
    return pairs, {name: lines[name] for name in pairs}, float(found.liked.mean())


def _foreseen(audited: AuditContext) -> tuple[dict[str, SeedPairs], dict[str, Binned], float]:
    """By the softmax over all items."""
    p = np.stack([_probabilities(audited, model) for model in audited.run.models.values()])
    pairs, mean = prediction_difference(p), p.mean(axis=0)
    line = binned(pairs.cases, mean, EqualMass(BINS), protocol=pairs.protocol, seed=audited.seed)
    return {DIFFERENCE: pairs}, {DIFFERENCE: line}, float(mean.mean())


def _probabilities(audited: AuditContext, model: Recommender) -> Floats:
    """`[B]`: of the item that came next, by one seed."""
    cases = audited.asked
    pieces = []
    for some in row_slices(len(cases), cases_at_once(audited.split.interactions.item_count)):
        log_p = score_all(model, cases[some], audited.length).log_softmax(dim=1).cpu()
        pieces.append(log_p.gather(1, torch.from_numpy(cases.targets[some])[:, None])[:, 0].exp())
    found: Floats = torch.cat(pieces).double().numpy().clip(0.0, 1.0)
    return found


def _chart(lines: Mapping[str, Binned]) -> Chart:
    return Chart(
        "bins",
        "what two trainings have in common",
        "How far the probabilities that two trainings give to what came next lie apart, by their "
        "mean"
        + (
            ", and beside it how much of what they attend to most they share, and how far their "
            "attention lies apart"
            if INDEX in lines
            else ""
        )
        + ": predictions may be steady where attention is not. Bands are 95 % intervals "
        "over users.",
        tuple(
            {"panel": SHOWN[name], "line": SHOWN[name], **row}
            for name, one in lines.items()
            for row in one.rows()
        ),
        across="mean probability of what came next",
    )


# Reasons of several seeds side by side: is what matters to one training what matters to another?


STEADY: Final = "an explainer is steady only if it lies clearly to the {} of 'random'."


class Reasons(NamedTuple):
    """What is found, ready to be told."""

    same: float
    """How far the steadiest explainer goes from chance to the very same."""
    told: str
    """Of two trainings, to go on from them: "share …" or "differ …"."""
    figures: tuple[Figure, ...]
    chart: Chart
    notes: tuple[str, ...]


def reasons_alike(audited: AuditContext, measures: Mapping[str, Measure]) -> Reasons | None:
    """From the columns of `seed_stability`; nothing where no part can be a reason, or is one."""
    if not audited.methods:
        return None
    if offers(audited.model, "part_names"):
        if not audited.telling:
            return None
        return _shared_out(audited, {name: measures[f"{name} KL"] for name in audited.methods})
    return _shared(
        audited,
        {name: _index(measures[f"{name} Jaccard distance %"]) for name in audited.methods},
    )


def _shared(audited: AuditContext, index: Mapping[str, Measure]) -> Reasons:
    """By the items that are most important."""
    spoken, chance = audited.spoken, index[CONTROL]
    best, room = max(audited.explainers, key=lambda name: index[name].value), 1 - chance.value
    return Reasons(
        (index[best].value - chance.value) / room if room > 0 else 0.0,
        f"share by {best}, the steadiest explainer, {percent(index[best].value)} of the "
        f"{spoken.parts} they find most important (chance: {percent(chance.value)})",
        tuple(_shared_figure(name, one, chance, spoken) for name, one in index.items()),
        Chart(
            "dots",
            f"most important {spoken.parts} that two trainings share",
            "Further to the right, the reasons depend less on the random seed; "
            + STEADY.format("right"),
            tuple(dot(name, one) for name, one in index.items()),
        ),
        (
            f"The most important {spoken.parts} are the top fifth of a {spoken.whole} by each "
            "explainer, for the item that came next; of two sets, the share is of all "
            f"{spoken.parts} in either (Jaccard).",
        ),
    )


def _index(distance: Measure) -> Measure:
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


def _shared_figure(method: str, index: Measure, chance: Measure, spoken: Spoken) -> Figure:
    said = (
        f"By {method}, two trainings have {percent(index.value)} of the most important "
        f"{spoken.parts} of a {spoken.whole} in common ({between(index)}); by chance it would be "
        f"{percent(chance.value)}."
    )
    if method == CONTROL:
        said = f"Two random choices of {spoken.parts} have {percent(index.value)} in common."
    return Figure(f"shared top {spoken.parts}", method, index, said)


def _shared_out(audited: AuditContext, apart: Mapping[str, Measure]) -> Reasons:
    """By the shares of importance that the parts have."""
    spoken, chance = audited.spoken, apart[CONTROL]
    of_chance = {name: _scaled(one, chance.value) for name, one in apart.items()}
    best = min(audited.telling, key=lambda name: of_chance[name].value)
    return Reasons(
        1 - of_chance[best].value,
        f"differ by {best}, the steadiest explainer, in how importance is shared out among the "
        f"{spoken.parts} by {percent(of_chance[best].value)} of what chance would",
        tuple(_apart_figure(name, one, chance, spoken) for name, one in apart.items()),
        Chart(
            "dots",
            "distance between two trainings, of that by chance",
            "Further to the left, the reasons depend less on the random seed; "
            + STEADY.format("left"),
            tuple(dot(name, one) for name, one in of_chance.items()),
        ),
        (
            f"Two trainings are as far apart as the shares that the {spoken.parts} of a "
            f"{spoken.whole} have of all importance, for or against alike, for the item that came "
            "next: their Kullback-Leibler divergence in nats, where 0 is the same.",
            f"An explainer by which the {spoken.parts} of every {spoken.whole} have like shares is "
            "steady without telling one from another.",
            *audited.parts_named(),
        ),
    )


def _scaled(measure: Measure, unit: float) -> Measure:
    low, high = measure.interval
    return replace(measure, value=measure.value / unit, interval=(low / unit, high / unit))


def _apart_figure(method: str, apart: Measure, chance: Measure, spoken: Spoken) -> Figure:
    said = (
        f"By {method}, two trainings share out importance among the {spoken.parts} of a "
        f"{spoken.whole} {rounded(apart)} nats apart; by chance it would be {signed(chance.value)}."
    )
    if method == CONTROL:
        said = f"Two random shares of importance are {rounded(apart)} nats apart."
    return Figure("difference of shares", method, apart, said)
