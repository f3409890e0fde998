"""Likeness: on a world made like the data the true reasons are known, and explainers are marked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from whence.arrays import Floats
from whence.measure import Measure, bootstrap_interval
from whence.trust import precision_on_world
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
from whence.trust.audit.words import between, percent, short, too_few
from whence.trust.truth.true_reasons import LEARNED, USERS, Learned, Mark
from whence.worlds import StatisticPair

STEPS: Final = 1_000
"""Of the training on the world, at most; no more than the run's own had."""
EPOCHS: Final = 5
"""The same where a step sees few users: how often to go through the world."""
MOST: Final = 0.5
"""From here on the true reason is named more often than not."""
REASONS: Final = {
    "caused": "the one that caused the choice",
    "taste": "of the genre that the choice shows a taste for",
    "prevented": "the one that kept another from being chosen",
}
"""What the item is that should be ranked first."""


def likeness(audited: AuditContext) -> Finding:
    """Train the same kind of model on a world like the data, and ask for reasons there."""
    run = audited.run
    found = precision_on_world(
        run,
        run.interactions,
        audited.methods,
        steps=_steps(audited),
        cases=audited.cases,
        seed=audited.seed,
        memory=audited.memory,
        show_progress=audited.show_progress,
    )
    reasons = [reason for reason in REASONS if reason in found.marks[CONTROL]]
    main = reasons[0]
    right = {name: marks[main].precision for name, marks in found.marks.items()}
    chance = right.pop(CONTROL)
    inputs = {name: float(audited.explanations[name].evaluations.mean()) for name in right}
    hits = {name: np.array(marks[main].hits) for name, marks in found.marks.items()}
    ranking = _ranking(right, hits, inputs)
    best = max(ranking, key=lambda one: one.value)
    few = "" if best.cases >= ENOUGH else f"; {too_few(best.cases, ENOUGH)}"
    return Finding(
        answer=_answer(best),
        summary=f"On a world made like the data, the item that {best.explainer} ranks first is "
        f"{REASONS[main]} in {percent(best.value)} of the cases, a random item in "
        f"{percent(chance.value)}{few}.",
        figures=(
            *_foreseen(found.learned, run.model, run.verb),
            *(
                _figure(name, reason, marks[reason])
                for reason in reasons
                for name, marks in found.marks.items()
            ),
        ),
        charts=(_chart(main, {name: marks[main] for name, marks in found.marks.items()}),),
        tables=(_beside_each_other(found.alike),),
        notes=(
            *_what_was_learned(found.learned),
            f"The world has {_users(found.alike):,} users, with the data's lengths of histories "
            "and popularity of items, and reasons of its own: that an explainer finds those is a "
            "good sign for the data, not a proof. One model was trained there; the intervals are "
            "over cases.",
        ),
        ranking=ranking,
    )


def _steps(audited: AuditContext) -> int:
    """Enough to learn from the world, but no more than the run had itself."""
    training = audited.run.training
    users = min(USERS, audited.split.interactions.user_count)
    enough = max(STEPS, EPOCHS * math.ceil(users / int(training["batch_size"])))
    return min(enough, int(audited.run.metrics[audited.seed]["steps"]))


def _foreseen(learned: Learned | None, model: str, verb: str) -> list[Figure]:
    """The accuracy of the model that the explainers are asked about."""
    if learned is None:
        return []
    return [
        Figure(
            f"{LEARNED} on the world",
            model,
            learned.model,
            f"On the world, what a user {verb} next is among the first ten of the model that was "
            f"trained there in {percent(learned.model.value)} of the cases "
            f"({between(learned.model)}), by popularity alone in "
            f"{percent(learned.popularity.value)}.",
        )
    ]


def _what_was_learned(learned: Learned | None) -> list[str]:
    """A caution that every precision here depends on."""
    if learned is None:
        return []
    return [
        "What a model has not learned, no explainer can find: the one trained on the world has "
        f"what comes next among its first ten in {percent(learned.model.value)} of the cases, "
        f"popularity in {percent(learned.popularity.value)}."
    ]


def _users(alike: Sequence[StatisticPair]) -> int:
    """Of the world."""
    return next(int(one.world) for one in alike if one.figure == "users")


def _chart(reason: str, marks: Mapping[str, Mark]) -> Chart:
    return Chart(
        "dots",
        "the true reason is named first",
        f"How often the item that each explainer ranks first is {REASONS[reason]}; the dashed line "
        "is chance.",
        tuple(dot(name, mark.precision) for name, mark in marks.items()),
    )


def _beside_each_other(alike: Sequence[StatisticPair]) -> Table:
    return Table(
        "How alike the data and the world are",
        ("the data", "the world"),
        tuple((one.figure, short(one.data), short(one.world)) for one in alike),
    )


def _ranking(
    right: Mapping[str, Measure], hits: Mapping[str, Floats], inputs: Mapping[str, float]
) -> tuple[Standing, ...]:
    """By how often the true reason is named, compared case by case."""
    best = max(right, key=lambda name: right[name].value)
    chance = float(hits[CONTROL].mean())
    return tuple(
        Standing(
            name,
            one.value,
            f"names the true reason first in {percent(one.value)} of the cases on a world like "
            f"the data (chance: {percent(chance)})",
            bootstrap_interval(hits[name] - hits[CONTROL]),
            bootstrap_interval(hits[best] - hits[name]),
            inputs[name],
            len(hits[name]),
        )
        for name, one in right.items()
    )


def _figure(name: str, reason: str, mark: Mark) -> Figure:
    item = "A random item" if name == CONTROL else f"The item that {name} ranks first"
    return Figure(
        f"precision at the cause: {reason}",
        name,
        mark.precision,
        f"{item} is {REASONS[reason]} in {percent(mark.precision.value)} of the cases "
        f"({between(mark.precision)}).",
    )


def _answer(best: Standing) -> Answer:
    if best.cases < ENOUGH:
        return "partly"
    if not best.better_than_random:
        return "no"
    return "yes" if best.value >= MOST else "partly"
