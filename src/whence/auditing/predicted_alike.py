"""Predictions of several seeds side by side: how sure is each that what came next would come?

Or how does each expect it to be rated, where ratings are what is foretold?
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import torch

from whence.auditing.audited import Audited
from whence.auditing.finding import Chart, Figure
from whence.auditing.words import between, percent, points, points_between, rounded
from whence.contract import offers
from whence.explanation import Floats
from whence.measure import Measure, over_seeds
from whence.memory import cases_at_once, questions_at_once, row_slices
from whence.models import Recommender
from whence.ranking import questions_of, score_all
from whence.trust import class_stability
from whence.trust.binned import Binned, binned
from whence.trust.bins import EqualMass
from whence.trust.class_stability import DIFFERENCE
from whence.trust.stability import SeedPairs, prediction_difference, rating_difference

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


def predicted_alike(audited: Audited) -> Alike:
    """What every seed of the run says of the item that came next."""
    return _sure_alike(audited) if audited.model.foretells_chances else _rated_alike(audited)


def _rated_alike(audited: Audited) -> Alike:
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
def _scores(audited: Audited, model: Recommender) -> Floats:
    """`[B]`: of the item that came next, by one seed."""
    pieces = []
    for some in row_slices(len(audited.asked), questions_at_once(audited.length, 1)):
        batch, targets = questions_of(model, audited.asked[some], audited.length)
        pieces.append(model.score(batch, targets[:, None])[:, 0].cpu())
    found: Floats = torch.cat(pieces).double().numpy()
    return found


def _sure_alike(audited: Audited) -> Alike:
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


def _judged(audited: Audited) -> tuple[dict[str, SeedPairs], dict[str, Binned], float]:
    """By the classes of models that have them, with their attention where they have any."""
    batch, targets = questions_of(audited.model, audited.asked, audited.length)
    models = list(audited.run.models.values())
    found = class_stability(models, batch, targets[:, None], memory=audited.memory)
    pairs = {name: found.pairs[name] for name in SHOWN if name in found.pairs}
    lines = found.by_prediction(seed=audited.seed)
    return pairs, {name: lines[name] for name in pairs}, float(found.liked.mean())


def _foreseen(audited: Audited) -> tuple[dict[str, SeedPairs], dict[str, Binned], float]:
    """By the softmax over all items."""
    p = np.stack([_probabilities(audited, model) for model in audited.run.models.values()])
    pairs, mean = prediction_difference(p), p.mean(axis=0)
    line = binned(pairs.cases, mean, EqualMass(BINS), protocol=pairs.protocol, seed=audited.seed)
    return {DIFFERENCE: pairs}, {DIFFERENCE: line}, float(mean.mean())


def _probabilities(audited: Audited, model: Recommender) -> Floats:
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
