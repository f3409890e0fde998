"""Faithfulness to the explained recommendation: what it loses without its strongest reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch

from whence.arrays import Floats, Ints
from whence.explainers import explain_batch
from whence.explanation import Explanation, Wording
from whence.measure import Measure, mean_measure
from whence.trust.audit.context import CONTROL, AuditContext
from whence.trust.audit.finding import Chart, Figure, dot
from whence.trust.audit.words import between, numbers_between, percent, rounded, signed
from whence.trust.faithfulness.coalition_values import coalition_values, value_correlation
from whence.trust.perturbation import predict_full

COALITIONS: Final = 128
LOSSES: Final = "leave-one-out:unit=probability"
LOST_RATINGS: Final = "leave-one-out"
"""If the score is a rating, the loss is in rating points."""


def losses_without_reason(context: AuditContext, some: slice) -> tuple[list[Figure], list[Chart]]:
    """Return figures and charts of the probability, or the rating, that is lost."""
    wording = context.wording
    if not context.model.predicts_probabilities:
        return _rating_figures(rating_lost(context, some), wording), []
    lost = probability_lost(context, some)
    return _lost_figures(lost, wording), [_lost_chart(lost, wording)]


def probability_lost(context: AuditContext, some: slice) -> dict[str, Measure]:
    """Return, by method, the share of its probability that is lost without the strongest reason.

    That is the part with the largest importance, counting its sign if the method has signs. Losses
    and probabilities are summed over cases before they are divided, so a case counts by how
    probable its recommendation is.
    """
    whole = _probability(context, some)
    lost = _lost(context, some, LOSSES)
    return {name: _share(one, whole, name) for name, one in lost.items()}


def rating_lost(context: AuditContext, some: slice) -> dict[str, Measure]:
    """Return, by method, the mean loss of the predicted rating, in points."""
    return {
        name: mean_measure(
            one,
            "mean over cases of the rating points that the recommendation's predicted rating loses "
            f"without the part most in its favour by {name}",
            range=(-np.inf, np.inf),
        )
        for name, one in _lost(context, some, LOST_RATINGS).items()
    }


def _lost(context: AuditContext, some: slice, by: str) -> dict[str, Floats]:
    """Return, by method, what is lost without the strongest reason `[b]`."""
    batch, targets = context.batch[some], context.targets[some]
    lost = explain_batch(context.model, batch, targets, by, context.seed, memory=context.memory)
    rows = np.arange(len(lost.scores))
    return {
        name: lost.scores[rows, _strongest(one[some])] for name, one in context.explanations.items()
    }


@torch.no_grad()
def _probability(context: AuditContext, some: slice) -> Floats:
    """Return the probability of each target with all parts of the case `[b]`."""
    batch, targets = context.batch[some], context.targets[some]
    pieces = [
        whole.log_p.gather(1, targets[cases, None])[:, 0].exp()
        for cases, whole in predict_full(context.model, batch, context.memory)
    ]
    found: Floats = torch.cat(pieces).cpu().numpy().astype(np.float64)
    return found


def _strongest(explanation: Explanation) -> Ints:
    """Return the slot of the part most in favour of the target `[B]`."""
    slots: Ints = np.where(explanation.parts, explanation.scores, -np.inf).argmax(axis=1)
    return slots


def _share(lost: Floats, whole: Floats, name: str) -> Measure:
    """Return Σ lost / Σ whole, linearised so that the interval accounts for both."""
    share = lost.mean() / whole.mean()
    return mean_measure(
        share + (lost - share * whole) / whole.mean(),
        "share of the recommendation's probability, summed over cases, that is lost without the "
        f"part most in its favour by {name}",
        range=(-np.inf, 1.0),
    )


def _lost_figures(lost: Mapping[str, Measure], wording: Wording) -> list[Figure]:
    """In a sentence each."""
    return [
        Figure("probability lost without its reason", name, one, _lost_sentence(name, one, wording))
        for name, one in lost.items()
    ]


def _lost_sentence(name: str, lost: Measure, wording: Wording) -> str:
    return (
        f"{_without(name, wording)} {_less(lost)} {percent(abs(lost.value))} of its probability "
        f"(loss: {between(lost)})."
    )


def _rating_figures(lost: Mapping[str, Measure], wording: Wording) -> list[Figure]:
    """In a sentence each."""
    return [
        Figure(
            "predicted rating lost without its reason",
            name,
            one,
            f"{_without(name, wording)} {_less(one)} {signed(abs(one.value))} rating points "
            f"(loss: {numbers_between(one)}).",
        )
        for name, one in lost.items()
    ]


def _without(name: str, wording: Wording) -> str:
    one = f"the {wording.part} that {name} finds most in its favour"
    gone = f"a random {wording.part}" if name == CONTROL else one
    return f"Without {gone}, the explained recommendation"


def _less(lost: Measure) -> str:
    return "loses" if round(lost.value, 3) >= 0 else "gains"


def _lost_chart(lost: Mapping[str, Measure], wording: Wording) -> Chart:
    """Return a dot per explainer."""
    return Chart(
        "dots",
        "probability that the recommendation loses",
        "The share of its own probability that the explained recommendation loses without the "
        f"{wording.part} that an explainer finds most in its favour. This tests explainers of a "
        "single recommendation on what they explain.",
        tuple(dot(name, one) for name, one in lost.items()),
    )


def coalition_figures(context: AuditContext, some: slice) -> list[Figure]:
    """Return how well each explanation predicts the score with only some parts."""
    values = coalition_values(
        context.model,
        context.batch[some],
        context.targets[some],
        COALITIONS,
        context.seed,
        context.memory,
    )
    found = {
        name: value_correlation(one[some], values)
        for name, one in context.explanations.items()
        if not np.isnan(values.correlation(one[some])).all()
    }
    return [
        Figure(
            f"score predicted from some {context.wording.parts}",
            name,
            one,
            _coalition_sentence(name, one, found[CONTROL], context.wording),
        )
        for name, one in found.items()
    ]


def _coalition_sentence(name: str, correlation: Measure, random: Measure, wording: Wording) -> str:
    """Compare with random importances, which correlate if more parts alone raise the score."""
    whose = "random" if name == CONTROL else f"{name}'s"
    said = (
        f"The sum of {whose} importances over random {wording.parts} of the {wording.whole} has a "
        f"correlation of {rounded(correlation)} with the model's score for these alone"
    )
    if name == CONTROL:
        return f"{said}."
    more = f", because more {wording.parts} score higher" if random.interval[0] > 0 else ""
    return f"{said}; random importances have {signed(random.value)}{more}."
