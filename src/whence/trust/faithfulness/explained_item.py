"""Of the recommendation itself: what does it lose without its reason, and is that foretold?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch

from whence.arrays import Floats, Ints
from whence.explainers import explain_batch
from whence.explanation import Explanation
from whence.measure import Measure, mean_measure
from whence.spoken import Spoken
from whence.trust import coalition_values, value_correlation
from whence.trust.audit.context import CONTROL, AuditContext
from whence.trust.audit.finding import Chart, Figure, dot
from whence.trust.audit.words import between, percent, rounded, signed
from whence.trust.perturbation import predict_full

COALITIONS: Final = 128
LOSSES: Final = "leave-one-out:unit=probability"
LOST_RATINGS: Final = "leave-one-out"
"""Of a score that is a rating, what is lost is in its points."""


def lost_with_reason(audited: AuditContext, some: slice) -> tuple[list[Figure], list[Chart]]:
    """What the recommendation loses of its probability, or of its rating, in figures and drawn."""
    spoken = audited.spoken
    if not audited.model.predicts_probabilities:
        return _rating_figures(rating_lost(audited, some), spoken), []
    lost = probability_lost(audited, some)
    return _lost_figures(lost, spoken), [_lost_chart(lost, spoken)]


def probability_lost(audited: AuditContext, some: slice) -> dict[str, Measure]:
    """By method: of the recommendation's probability, what goes with the strongest reason for it.

    That is the part of the largest importance, whose sign counts where a method has signs. Losses
    and probabilities are added up over cases before they are divided: a case counts as much as its
    recommendation is probable.
    """
    whole = _probability(audited, some)
    lost = _lost(audited, some, LOSSES)
    return {name: _share(one, whole, name) for name, one in lost.items()}


def rating_lost(audited: AuditContext, some: slice) -> dict[str, Measure]:
    """The same of the rating that is expected, in points, as the mean over cases."""
    return {
        name: mean_measure(
            one,
            "mean over cases of the rating points that the recommendation's expected rating loses "
            f"without the part that speaks most for it by {name}",
            range=(-np.inf, np.inf),
        )
        for name, one in _lost(audited, some, LOST_RATINGS).items()
    }


def _lost(audited: AuditContext, some: slice, by: str) -> dict[str, Floats]:
    """By method, `[b]`: what goes with the strongest reason."""
    batch, targets = audited.batch[some], audited.targets[some]
    lost = explain_batch(audited.model, batch, targets, by, audited.seed, memory=audited.memory)
    rows = np.arange(len(lost.scores))
    return {
        name: lost.scores[rows, _strongest(one[some])] for name, one in audited.explanations.items()
    }


@torch.no_grad()
def _probability(audited: AuditContext, some: slice) -> Floats:
    """`[b]`: of each case's target, with all parts of the case."""
    batch, targets = audited.batch[some], audited.targets[some]
    pieces = [
        whole.log_p.gather(1, targets[cases, None])[:, 0].exp()
        for cases, whole in predict_full(audited.model, batch, audited.memory)
    ]
    found: Floats = torch.cat(pieces).cpu().numpy().astype(np.float64)
    return found


def _strongest(explanation: Explanation) -> Ints:
    """`[B]`: the slot of the part that speaks most for the target."""
    slots: Ints = np.where(explanation.parts, explanation.scores, -np.inf).argmax(axis=1)
    return slots


def _share(lost: Floats, whole: Floats, name: str) -> Measure:
    """Σ lost / Σ whole, linearised so that the interval knows that both vary together."""
    share = lost.mean() / whole.mean()
    return mean_measure(
        share + (lost - share * whole) / whole.mean(),
        "share of the recommendation's probability, added up over cases, that is lost without the "
        f"part that speaks most for it by {name}",
        range=(-np.inf, 1.0),
    )


def _lost_figures(lost: Mapping[str, Measure], spoken: Spoken) -> list[Figure]:
    """In a sentence each."""
    return [
        Figure("probability lost without its reason", name, one, _lost_sentence(name, one, spoken))
        for name, one in lost.items()
    ]


def _lost_sentence(name: str, lost: Measure, spoken: Spoken) -> str:
    return (
        f"{_without(name, spoken)} {_less(lost)} {percent(abs(lost.value))} of its probability "
        f"(loss: {between(lost)})."
    )


def _rating_figures(lost: Mapping[str, Measure], spoken: Spoken) -> list[Figure]:
    """In a sentence each."""
    return [
        Figure(
            "expected rating lost without its reason",
            name,
            one,
            f"{_without(name, spoken)} {_less(one)} {signed(abs(one.value))} rating points of what "
            f"is expected (loss: {' to '.join(map(signed, one.interval))}).",
        )
        for name, one in lost.items()
    ]


def _without(name: str, spoken: Spoken) -> str:
    one = f"the {spoken.part} that speaks most for it by {name}"
    gone = f"a random {spoken.part}" if name == CONTROL else one
    return f"Without {gone}, the recommendation that is explained"


def _less(lost: Measure) -> str:
    return "loses" if round(lost.value, 3) >= 0 else "gains"


def _lost_chart(lost: Mapping[str, Measure], spoken: Spoken) -> Chart:
    """One dot an explainer."""
    return Chart(
        "dots",
        "probability that the recommendation loses",
        "How much of its own probability the explained recommendation loses without the one "
        f"{spoken.part} that each explainer says speaks most for it; here explainers of one target "
        "are asked about what they explain.",
        tuple(dot(name, one) for name, one in lost.items()),
    )


def foretold(audited: AuditContext, some: slice) -> list[Figure]:
    """How well each explanation foretells the score with some of the parts only."""
    values = coalition_values(
        audited.model,
        audited.batch[some],
        audited.targets[some],
        COALITIONS,
        audited.seed,
        audited.memory,
    )
    found = {
        name: value_correlation(one[some], values)
        for name, one in audited.explanations.items()
        if not np.isnan(values.correlation(one[some])).all()
    }
    return [
        Figure(
            f"foretold on parts of a {audited.spoken.whole}",
            name,
            one,
            _foretold_sentence(name, one, found[CONTROL], audited.spoken),
        )
        for name, one in found.items()
    ]


def _foretold_sentence(name: str, correlation: Measure, chance: Measure, spoken: Spoken) -> str:
    """Beside chance, which is above 0 where the mere number of parts raises the score."""
    whose = "random" if name == CONTROL else f"{name}'s"
    said = (
        f"The sum of {whose} importances over random {spoken.parts} of the {spoken.whole} "
        f"correlates at {rounded(correlation)} with the model's score for those alone"
    )
    if name == CONTROL:
        return f"{said}."
    more = f", because more {spoken.parts} score higher" if chance.interval[0] > 0 else ""
    return f"{said}; random importances: {signed(chance.value)}{more}."
