"""Accuracy: a model that foresees nothing is not worth explaining."""

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
from whence.trust.audit.context import HELD, LISTED, AuditContext
from whence.trust.audit.finding import ENOUGH, Answer, Chart, Figure, Finding, clearly_positive, dot
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

MAIN: Final = "recall@10"
READINGS: Final = {
    "recall@10": "What a user {verb} next is among the model's first ten in {value} of the cases.",
    "recall@10 of 101": "Among 100 random items, what a user {verb} next is in the first ten in "
    "{value} of the cases.",
    "NDCG@10": "Weighted by its place in the first ten, what a user {verb} next earns {value} of "
    "what always being first would.",
    "MRR": "The reciprocal of its place is {value} on average: first place would be 100 %, second "
    "50 %.",
}


def accuracy(audited: AuditContext) -> Finding:
    """What training measured, beside simple rules where the data are at hand."""
    run = audited.run
    found = run.metrics[audited.seed].get(HELD)
    if found is None:
        raise InputError(f"No {HELD} events were held out to measure accuracy on.")
    if _list_is_catalog(audited):
        raise InputError(
            f"A list of {LISTED} has all that is left of the catalog, so that being among the "
            "first ten says nothing."
        )
    measures = {name: Measure.from_dict(fields) for name, fields in found.items()}
    figures = [
        Figure(name, run.model, measure, _reading(name, measure, run.verb))
        for name, measure in measures.items()
    ]
    figures += _over_seeds(run, measures[MAIN])
    try:
        rules = _beside_rules(audited)
    except WhenceError as problem:
        value = percent(measures[MAIN].value)
        return Finding(
            answer="partly",
            summary=f"What a user {run.verb} next is among the model's first ten in {value} of "
            "the cases; how simple rules do is not known, without the data.",
            figures=tuple(figures),
            notes=(str(problem),),
            complete=False,
        )
    leads = {rule: own.lead_over(found)[MAIN] for rule, (own, found) in rules.items()}
    answer, summary = _verdict(measures[MAIN], leads, run.verb)
    of_ratings = _of_ratings(audited)
    if of_ratings is not None:
        # Who foretells ratings is good if both are: what comes next, and how it is rated.
        answer = answer if answer == of_ratings.answer else "partly"
        summary = f"{summary} {of_ratings.summary}"
        figures += of_ratings.figures
    shown = {run.model: measures[MAIN]}
    shown |= {rule: found.measures()[MAIN] for rule, (_, found) in rules.items()}
    return Finding(
        answer=answer,
        summary=summary,
        figures=(*figures, *(_lead(rule, lead) for rule, lead in leads.items())),
        charts=(
            Chart(
                "dots",
                "what came next is among the first ten",
                "Each dot is a share of the held-out cases, with its 95 % interval; further to the "
                "right is better.",
                tuple(dot(name, measure) for name, measure in shown.items()),
            ),
        ),
        notes=(sentence(measures[MAIN].protocol),),
    )


def _list_is_catalog(audited: AuditContext) -> bool:
    """As far as it is known without the data."""
    try:
        return audited.list_is_catalog
    except WhenceError:
        return len(audited.run.catalog) <= LISTED


def _over_seeds(run: Run, one: Measure) -> list[Figure]:
    """The mean of several seeds, with its interval over them."""
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
            f"Over the {len(values)} trainings of this run it is {percent(measure.value)} on "
            f"average ({between(measure)}).",
        )
    ]


def _beside_rules(audited: AuditContext) -> dict[str, tuple[PerCase, PerCase]]:
    """By rule, the model and the rule on the same cases."""
    audited.require_events()
    evaluation = Evaluation(audited.split, HELD, audited.model.config.max_len)
    own = evaluation.full(audited.model)
    return {name: (own, evaluation.full(make(audited.split))) for name, make in BASELINES.items()}


def _verdict(found: Measure, leads: Mapping[str, Measure], verb: str) -> tuple[Answer, str]:
    """Better than every rule, than some, or than none; of too few cases it cannot be told."""
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
        f"What a user {verb} next is among the model's first ten in {percent(found.value)} of the "
        "cases"
    )
    if found.n < ENOUGH:
        return "partly", f"{said}; {too_few(found.n, ENOUGH)}."
    if len(better) == len(leads):
        return "yes", f"{said}, clearly more often than by any of {len(leads)} simple rules."
    told = ", ".join(f"{side} {listed(rules)}" for side, rules in sides.items() if rules)
    return "partly" if better else "no", f"{said}; against simple rules it is {told}."


def _of_ratings(audited: AuditContext) -> Finding | None:
    """How far off ratings are, beside their mean; nothing of who foretells none."""
    if audited.model.predicts_probabilities:
        return None
    evaluation = Evaluation(audited.split, HELD, audited.model.config.max_len)
    own, rule = (evaluation.rated(one) for one in (audited.model, MeanRating(audited.split)))
    if not own.values:
        return None
    found = own.measures()[RATING_ERROR]
    mean, less = rule.measures()[RATING_ERROR], rule.lead_over(own)[RATING_ERROR]
    better = clearly_positive(less.interval, less.n)
    beside = "clearly less than" if better else "not clearly less than"
    return Finding(
        answer="yes" if better else "no",
        summary=f"The ratings it expects are off by {found.value:.2f} rating points on average, "
        f"{beside} the {mean.value:.2f} of always expecting the mean.",
        figures=(
            Figure(
                RATING_ERROR,
                MEAN_RATING,
                mean,
                f"By the rule '{MEAN_RATING}' they are off by {rounded(mean)} rating "
                "points on average.",
            ),
        ),
    )


def _lead(rule: str, lead: Measure) -> Figure:
    more = "more" if lead.value >= 0 else "fewer"
    return Figure(
        f"lead over {rule}",
        "model",
        lead,
        f"That is {points(abs(lead.value))} {more} than by the rule '{rule}' "
        f"({points_between(lead)}).",
    )


def _reading(name: str, measure: Measure, verb: str) -> str:
    if name == RATING_ERROR:
        return f"The ratings it expects are off by {rounded(measure)} rating points on average."
    if name not in READINGS:
        return f"{name} is {measure.value:.3f}."
    return READINGS[name].format(verb=verb, value=f"{percent(measure.value)} ({between(measure)})")
