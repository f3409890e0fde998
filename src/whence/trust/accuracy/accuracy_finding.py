"""Audit stage: a model that predicts nothing is not worth explaining."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from whence.errors import InputError, WhenceError
from whence.measure import Measure, over_seeds
from whence.models.mean_rating import MEAN_RATING, MeanRating
from whence.run import Run
from whence.training import Evaluation
from whence.training.comparison import MAIN, Comparison, compare_with_simple
from whence.training.evaluation import RATING_ERROR, evaluate
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
    measures = _measured(context)
    if _list_is_catalog(context):
        raise InputError(
            f"A list of {TOP_TEN} holds everything that is left to recommend, so being in it says "
            "nothing."
        )
    figures = [
        Figure(name, run.model, measure, _reading(name, measure, run.verb))
        for name, measure in measures.items()
    ]
    figures += _over_seeds(run, measures[MAIN])
    try:
        context.require_events()
        compared = compare_with_simple(context.model, run.model, context.split, HELD)
        assert compared is not None
    except WhenceError as problem:
        return Finding(
            answer="partly",
            summary=f"{_said(measures, run.verb)}. Without the data it cannot be compared with "
            "simple models.",
            figures=tuple(figures),
            notes=(str(problem),),
            complete=False,
        )
    answer, summary = _verdict(measures, compared, run.verb)
    ratings = _find_ratings(context)
    if ratings is not None:
        # A model of ratings is good if it predicts both the next item and its rating.
        answer = answer if answer == ratings.answer else "partly"
        summary = f"{summary} {ratings.summary}"
        figures += ratings.figures
    shown = {run.model: measures[MAIN]}
    shown |= {name: found.measures()[MAIN] for name, found in compared.simple.items()}
    return Finding(
        answer=answer,
        summary=summary,
        figures=(*figures, *(_lead(name, lead) for name, lead in compared.leads.items())),
        charts=(
            Chart(
                "dots",
                "NDCG@10: the next item is high among the first ten",
                "Each dot is a mean over the held-out cases with its 95 % interval; further right "
                "is better.",
                tuple(dot(name, measure) for name, measure in shown.items()),
            ),
        ),
        notes=(sentence(measures[MAIN].protocol),),
    )


def _measured(context: AuditContext) -> dict[str, Measure]:
    """Return what training measured; models that a former version left apart are measured now."""
    run = context.run
    found = run.accuracy_of(context.model_seed, HELD)
    if found is not None:
        return {name: Measure.from_dict(fields) for name, fields in found.items()}
    if not any(HELD in one for one in run.metrics.values()):
        raise InputError(f"The split held out no {HELD} events to measure accuracy on.")
    return evaluate(context.model, context.split, HELD, context.model.config.max_len)


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
            f"The {len(values)} seeds of this run alone have an NDCG@10 of "
            f"{percent(measure.value)} on average ({between(measure)}).",
        )
    ]


def _said(measures: Mapping[str, Measure], verb: str) -> str:
    return (
        f"The item that a user {verb} next is among the model's first ten in "
        f"{percent(measures['recall@10'].value)} of the cases ({MAIN} "
        f"{percent(measures[MAIN].value)})"
    )


def _verdict(
    measures: Mapping[str, Measure], compared: Comparison, verb: str
) -> tuple[Answer, str]:
    """Answer whether the model is better than every simple model, than some, or than none."""
    said, found = _said(measures, verb), measures[MAIN]
    if found.n < ENOUGH:
        return "partly", f"{said}; {too_few(found.n, ENOUGH)}."
    better, level, worse = ([f"'{name}'" for name in side] for side in compared.sides())
    if not level and not worse:
        return "yes", f"{said}, clearly better than each of {len(better)} simple models."
    sides = {"clearly better than": better, "level with": level, "clearly worse than": worse}
    result = ", ".join(f"{side} {listed(names)}" for side, names in sides.items() if names)
    return "partly" if better else "no", f"{said}. Of the simple models, it is {result}."


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
        f"{MAIN} is {points(abs(lead.value))} {higher} than with '{rule}' "
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
            "clearly better than every simple model",
            "clearly better than some",
            "clearly better than none",
        ),
        needs_data=False,
    ),
    place=10,
)
