"""Audit stage: on a synthetic world like the data, true reasons are known and can be checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from whence.arrays import Floats
from whence.measure import Measure, bootstrap_interval
from whence.trust.audit.context import CONTROL, AuditContext
from whence.trust.audit.finding import (
    ENOUGH,
    Answer,
    Chart,
    Figure,
    Finding,
    Standing,
    Table,
    dot,
)
from whence.trust.audit.stage import STAGES, Stage
from whence.trust.audit.words import between, percent, short, too_few
from whence.trust.measures import SCORES
from whence.trust.truth.true_reasons import (
    RECALL,
    USERS,
    ReasonScore,
    WorldAccuracy,
    precision_on_world,
)
from whence.worlds import StatisticPair

STEPS: Final = 1_000
"""Training steps on the world, at most those of the run."""
EPOCHS: Final = 5
"""Passes over the world, if these take more steps."""
MOST: Final = 0.5
"""From this precision on, the true reason is named more often than not."""
REASONS: Final = {
    "caused": "the one that caused the choice",
    "taste": "of the genre that the user prefers",
    "prevented": "the one that prevented another choice",
}
"""What the item ranked first should be."""


def find_true_reasons(context: AuditContext) -> Finding:
    """Train the same kind of model on a world like the data, and test explainers there."""
    run = context.run
    found = precision_on_world(
        run,
        run.interactions,
        context.methods,
        steps=_steps(context),
        cases=context.n_cases,
        seed=context.seed,
        memory=context.memory,
        removal=context.removal,
        show_progress=context.show_progress,
    )
    reasons = [reason for reason in REASONS if reason in found.scores[CONTROL]]
    main = reasons[0]
    right = {name: scores[main].precision for name, scores in found.scores.items()}
    at_random = right.pop(CONTROL)
    inputs = {name: float(context.explanations[name].evaluations.mean()) for name in right}
    hits = {name: np.array(scores[main].hits) for name, scores in found.scores.items()}
    ranking = _ranking(right, hits, inputs)
    best = max(ranking, key=lambda one: one.value)
    few = "" if best.cases >= ENOUGH else f"; {too_few(best.cases, ENOUGH)}"
    return Finding(
        answer=_answer(best),
        summary=f"On a synthetic world like the data, the item that {best.explainer} ranks first "
        f"is {REASONS[main]} in {percent(best.value)} of the cases, a random item in "
        f"{percent(at_random.value)}{few}.",
        figures=(
            *_accuracy_figure(found.accuracy, run.model, run.verb),
            *(
                _figure(name, reason, scores[reason])
                for reason in reasons
                for name, scores in found.scores.items()
            ),
        ),
        charts=(_chart(main, {name: scores[main] for name, scores in found.scores.items()}),),
        tables=(_likeness_table(found.alike),),
        notes=(
            *_accuracy_note(found.accuracy),
            f"The world has {_users(found.alike):,} users, with the history lengths and item "
            "popularity of the data, but its own reasons. An explainer that finds those is "
            "promising for the data, not proven. One model was trained there; the intervals are "
            "over cases.",
        ),
        ranking=ranking,
    )


def _steps(context: AuditContext) -> int:
    """Return enough steps to learn the world, but no more than the run had."""
    training = context.run.training
    users = min(USERS, context.split.interactions.user_count)
    enough = max(STEPS, EPOCHS * math.ceil(users / int(training["batch_size"])))
    return min(enough, int(context.run.metrics[context.seed]["steps"]))


def _accuracy_figure(accuracy: WorldAccuracy | None, model: str, verb: str) -> list[Figure]:
    """Return the accuracy of the model that the explainers are tested on."""
    if accuracy is None:
        return []
    return [
        Figure(
            f"{RECALL} on the world",
            model,
            accuracy.model,
            f"On the world, the item that a user {verb} next is among the first ten of the model "
            f"trained there in {percent(accuracy.model.value)} of the cases "
            f"({between(accuracy.model)}), by popularity alone in "
            f"{percent(accuracy.popularity.value)}.",
        )
    ]


def _accuracy_note(accuracy: WorldAccuracy | None) -> list[str]:
    """Return a caution that applies to every precision here."""
    if accuracy is None:
        return []
    return [
        "No explainer can find what a model has not learned: the model trained on the world has "
        f"the next item among its first ten in {percent(accuracy.model.value)} of the cases, "
        f"popularity in {percent(accuracy.popularity.value)}."
    ]


def _users(alike: Sequence[StatisticPair]) -> int:
    """Return the number of users of the world."""
    return next(int(one.world) for one in alike if one.figure == "users")


def _chart(reason: str, scores: Mapping[str, ReasonScore]) -> Chart:
    return Chart(
        "dots",
        "the true reason is ranked first",
        f"How often the item that an explainer ranks first is {REASONS[reason]}; the dashed line "
        "is a random item.",
        tuple(dot(name, one.precision) for name, one in scores.items()),
    )


def _likeness_table(alike: Sequence[StatisticPair]) -> Table:
    return Table(
        "How similar the data and the world are",
        ("the data", "the world"),
        tuple((one.figure, short(one.data), short(one.world)) for one in alike),
    )


def _ranking(
    right: Mapping[str, Measure], hits: Mapping[str, Floats], inputs: Mapping[str, float]
) -> tuple[Standing, ...]:
    """Compare case by case how often the true reason is ranked first."""
    best = max(right, key=lambda name: right[name].value)
    at_random = float(hits[CONTROL].mean())
    return tuple(
        Standing(
            name,
            one.value,
            f"ranks the true reason first in {percent(one.value)} of the cases on a synthetic "
            f"world like the data (random: {percent(at_random)})",
            bootstrap_interval(hits[name] - hits[CONTROL]),
            bootstrap_interval(hits[best] - hits[name]),
            inputs[name],
            len(hits[name]),
        )
        for name, one in right.items()
    )


def _figure(name: str, reason: str, score: ReasonScore) -> Figure:
    item = "A random item" if name == CONTROL else f"The item that {name} ranks first"
    return Figure(
        f"precision at the cause: {reason}",
        name,
        score.precision,
        f"{item} is {REASONS[reason]} in {percent(score.precision.value)} of the cases "
        f"({between(score.precision)}).",
    )


def _answer(best: Standing) -> Answer:
    if best.cases < ENOUGH:
        return "partly"
    if not best.better_than_random:
        return "no"
    return "yes" if best.value >= MOST else "partly"


STAGES.add(
    "truth",
    Stage(
        "True reasons",
        "Do explainers find the true reason, where it is known?",
        find_true_reasons,
        (
            "the best explainer ranks it first in most cases",
            "clearly more often than a random item",
            "not clearly more often",
        ),
        needs=SCORES,
        needs_history=True,
    ),
    aliases=("likeness",),
    place=40,
)
