"""Audit stage: a model that predicts nothing is not worth explaining."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from whence.errors import InputError, WhenceError
from whence.measure import Measure, over_seeds
from whence.models.baselines import BASELINES, MEAN_RATING, MeanRating
from whence.run import Run
from whence.training import Evaluation, PerCase
from whence.training.evaluation import RATING_ERROR
from whence.trust.audit.context import HELD, AuditContext
from whence.trust.audit.finding import ENOUGH, Answer, Chart, Figure, Finding, clearly_positive, dot
from whence.trust.audit.stage import STAGES, Stage
from whence.trust.audit.words import (
    between,
    listed,
    percent,
    points,
    points_between,
    rounded,
    sentence,
    too_few,
)
from whence.trust.perturbation import TOP_TEN

MAIN: Final = "recall@10"
READINGS: Final = {
    "recall@10": "The item that a user {verb} next is among the model's first ten in {value} of "
    "the cases.",
    "recall@10 of 101": "Ranked among 100 random items, the item that a user {verb} next is in the "
    "first ten in {value} of the cases.",
    "NDCG@10": "Weighted by its rank in the first ten, the item that a user {verb} next earns "
    "{value} of the best possible score.",
    "MRR": "The mean reciprocal rank of that item is {value}; always ranking it first would give "
    "100 %, always second 50 %.",
    "coverage@10": "All lists of ten together show {value} of the catalog.",
    "novelty@10": "A recommended item carries {number} bits of self-information on average; each "
    "bit more halves the share of users who chose it in training.",
    "diversity@10": "Two items of a list have a distance of {number} on average; it is 1 if no "
    "user chose both in training, and 0 if the same users chose them.",
    "popularity bias@10": "The recommended items are {points} popular than those that users {verb} "
    "next.",
}
"""How to read each metric."""


def find_accuracy(context: AuditContext) -> Finding:
    """Report what training measured, compared with simple rules if the data are available."""
    run = context.run
    found = run.metrics[context.model_seed].get(HELD)
    if found is None:
        raise InputError(f"The split held out no {HELD} events to measure accuracy on.")
    if _list_is_catalog(context):
        raise InputError(
            f"A list of {TOP_TEN} holds everything that is left to recommend, so being in it says "
            "nothing."
        )
    measures = {name: Measure.from_dict(fields) for name, fields in found.items()}
    figures = [
        Figure(name, run.model, measure, _reading(name, measure, run.verb))
        for name, measure in measures.items()
    ]
    figures += _over_seeds(run, measures[MAIN])
    try:
        rules = _compare_with_rules(context)
    except WhenceError as problem:
        value = percent(measures[MAIN].value)
        return Finding(
            answer="partly",
            summary=f"The item that a user {run.verb} next is among the model's first ten in "
            f"{value} of the cases. Without the data it cannot be compared with simple rules.",
            figures=tuple(figures),
            notes=(str(problem),),
            complete=False,
        )
    leads = {rule: own.lead_over(found)[MAIN] for rule, (own, found) in rules.items()}
    answer, summary = _verdict(measures[MAIN], leads, run.verb)
    ratings = _find_ratings(context)
    if ratings is not None:
        # A model of ratings is good if it predicts both the next item and its rating.
        answer = answer if answer == ratings.answer else "partly"
        summary = f"{summary} {ratings.summary}"
        figures += ratings.figures
    shown = {run.model: measures[MAIN]}
    shown |= {rule: found.measures()[MAIN] for rule, (_, found) in rules.items()}
    return Finding(
        answer=answer,
        summary=summary,
        figures=(*figures, *(_lead(rule, lead) for rule, lead in leads.items())),
        charts=(
            Chart(
                "dots",
                "recall@10: the next item is among the first ten",
                "Each dot is a share of the held-out cases with its 95 % interval; further right "
                "is better.",
                tuple(dot(name, measure) for name, measure in shown.items()),
            ),
        ),
        notes=(sentence(measures[MAIN].protocol),),
    )


def _list_is_catalog(context: AuditContext) -> bool:
    """Return whether a list holds the whole catalog, as far as the data tell."""
    try:
        return context.list_is_catalog
    except WhenceError:
        return len(context.run.catalog) <= TOP_TEN


def _over_seeds(run: Run, one: Measure) -> list[Figure]:
    """Return the mean over several seeds, with its interval over them."""
    values = [found[HELD][MAIN]["value"] for found in run.metrics.values()]
    if len(values) == 1:
        return []
    protocol = f"{one.protocol}; mean over {len(values)} seeds"
    measure = over_seeds(replace(one, protocol=protocol), values)
    return [
        Figure(
            f"{MAIN} over seeds",
            run.model,
            measure,
            f"Over the {len(values)} seeds of this run, recall@10 is {percent(measure.value)} on "
            f"average ({between(measure)}).",
        )
    ]


def _compare_with_rules(context: AuditContext) -> dict[str, tuple[PerCase, PerCase]]:
    """Return, by rule, the results of the model and of the rule on the same cases."""
    context.require_events()
    evaluation = Evaluation(context.split, HELD, context.model.config.max_len)
    own = evaluation.full(context.model)
    return {name: (own, evaluation.full(make(context.split))) for name, make in BASELINES.items()}


def _verdict(found: Measure, leads: Mapping[str, Measure], verb: str) -> tuple[Answer, str]:
    """Answer whether the model is better than every rule, than some, or than none."""
    sides: dict[str, list[str]] = {
        "clearly better than": [],
        "level with": [],
        "clearly worse than": [],
    }
    better, level, worse = sides.values()
    for rule, lead in leads.items():
        low, high = lead.interval
        ahead, behind = (clearly_positive(ends, lead.n) for ends in ((low, high), (-high, -low)))
        (better if ahead else worse if behind else level).append(f"'{rule}'")
    said = (
        f"The item that a user {verb} next is among the model's first ten in "
        f"{percent(found.value)} of the cases"
    )
    if found.n < ENOUGH:
        return "partly", f"{said}; {too_few(found.n, ENOUGH)}."
    if len(better) == len(leads):
        return "yes", f"{said}, clearly more often than with any of {len(leads)} simple rules."
    result = ", ".join(f"{side} {listed(rules)}" for side, rules in sides.items() if rules)
    return "partly" if better else "no", f"{said}. Of the simple rules, it is {result}."


def _find_ratings(context: AuditContext) -> Finding | None:
    """Compare the error of predicted ratings with that of their mean, if there are any."""
    if context.model.predicts_probabilities:
        return None
    evaluation = Evaluation(context.split, HELD, context.model.config.max_len)
    own, rule = (evaluation.rated(one) for one in (context.model, MeanRating(context.split)))
    if not own.values:
        return None
    found = own.measures()[RATING_ERROR]
    mean, less = rule.measures()[RATING_ERROR], rule.lead_over(own)[RATING_ERROR]
    better = clearly_positive(less.interval, less.n)
    compared = "clearly less than" if better else "not clearly less than"
    return Finding(
        answer="yes" if better else "no",
        summary=f"The predicted ratings are off by {found.value:.2f} rating points on average, "
        f"{compared} the {mean.value:.2f} of always predicting the mean.",
        figures=(
            Figure(
                RATING_ERROR,
                MEAN_RATING,
                mean,
                f"With the rule '{MEAN_RATING}', ratings are off by {rounded(mean)} rating points "
                "on average.",
            ),
        ),
    )


def _lead(rule: str, lead: Measure) -> Figure:
    higher = "higher" if lead.value >= 0 else "lower"
    return Figure(
        f"lead over {rule}",
        "model",
        lead,
        f"Recall@10 is {points(abs(lead.value))} {higher} than with the rule '{rule}' "
        f"({points_between(lead)}).",
    )


def _reading(name: str, measure: Measure, verb: str) -> str:
    if name == RATING_ERROR:
        return f"The predicted ratings are off by {rounded(measure)} rating points on average."
    if name not in READINGS:
        return f"{name} is {measure.value:.3f}."
    more = "more" if measure.value >= 0 else "less"
    return READINGS[name].format(
        verb=verb,
        value=f"{percent(measure.value)} ({between(measure)})",
        number=rounded(measure),
        points=f"{points(abs(measure.value))} ({points_between(measure)}) {more}",
    )


STAGES.add(
    "accuracy",
    Stage(
        "Accuracy",
        "Is the model accurate?",
        find_accuracy,
        (
            "clearly better than every simple rule",
            "clearly better than some",
            "clearly better than none",
        ),
        needs_data=False,
    ),
    place=10,
)
