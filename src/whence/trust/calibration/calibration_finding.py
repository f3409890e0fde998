"""Calibration: whoever is shown how sure a model is should find it right that often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Ints
from whence.contract import offers
from whence.data.histories import Cases
from whence.data.splits import HeldOut
from whence.errors import InputError, WhenceError
from whence.measure import Measure
from whence.ranking import seen_items
from whence.trust import (
    adaptive_calibration_error,
    calibration_measures,
    class_accuracy,
    class_logits,
    expected_calibration_error,
    fit_temperature,
    positives_and_negatives,
    reliability,
)
from whence.trust.accuracy.class_accuracy import ratings_of
from whence.trust.audit.class_questions import questions
from whence.trust.audit.context import HELD, AuditContext
from whence.trust.audit.finding import ENOUGH, Answer, Chart, Figure, Finding
from whence.trust.audit.words import between, percent, points, points_between, rounded, too_few
from whence.trust.bins import FIFTEEN, Bins, EqualMass, EqualWidth
from whence.trust.calibration.next_item import next_item_logits
from whence.trust.predictions import Logits, Predictions, predictions_from_logits
from whence.trust.resampling import mean_of_cases

TIMES: Final = 10
"""As many times the audit's histories are asked about here, as each is but one input."""
FITTED_ON: Final[HeldOut] = "validation"
TENTH, THIRD = 0.1, 1 / 3
"""Of what the model says, or of how often it is right: up to there it is called calibrated, or
partly so."""
IMPOSSIBLE: Final = torch.tensor(-torch.inf)
CAME, UNMET = "what came next", "never met"
SHOWN: Final = {"positives": CAME, "negatives": UNMET}
"""What a reader knows them by."""
READINGS: Final = {
    "expected calibration error": "In {bins} bins of equal width, how sure the model is and how "
    "often it is right differ by {points} on average ({between}).",
    "maximum calibration error": "In the worst of these bins they differ by {points} ({between}).",
    "adaptive calibration error": "In {bins} bins of equally many cases they differ by {points} on "
    "average ({between}).",
    "Brier score": "The squared distance between the probabilities and what came is {rounded}, "
    "where 0 is always sure and right and 2 always sure and wrong.",
    "negative log-likelihood": "What came surprises the model by {rounded} nats on average; 0 "
    "would be to have been sure of it.",
}
BY_CLASS: Final = {
    "liked": "Of what came next and counts as liked, it expects {value} to be liked.",
    "nothing": "Of items never met, it expects of {value} that nothing comes of them.",
    "disliked": "Of what came next and was disliked, it expects {value} to be disliked.",
}
"""How the accuracy of each class is read."""


class Asked(NamedTuple):
    """What a model of this kind is asked, and how it is told and drawn."""

    what: str
    """The model is sure of, to go on from "it is sure of"."""
    bins: Bins
    apart: bool
    """Whether what came next and what was never met are drawn apart too."""
    note: str


OF_CLASSES: Final = Asked(
    "its answer",
    EqualWidth(20),
    True,
    "The model is asked whether a user will like an item: of the item that came next, which it "
    "should say yes to, and of items that the user meets nowhere in the data, drawn evenly, as "
    "many for each as it learned by. Of another mixture it would be right more or less often.",
)
OF_ITEMS: Final = Asked(
    "the item it puts first",
    EqualMass(FIFTEEN),
    False,
    "How sure the model is of an item is the softmax of its score among the items that the user "
    "has not met, and it is right if that item came next. A model that learned from sampled "
    "negatives, as SASRec does, was never taught that this be a probability.",
)


def calibration(audited: AuditContext) -> Finding:
    """Hold how sure the model is against how often it is right, on held-out events."""
    asked = OF_CLASSES if offers(audited.model, "classes") else OF_ITEMS
    answers = _answers(audited, HELD)
    found = answers.predictions(protocol=f"{audited.run.model}, {HELD} events")
    correct = found.correct.astype(np.float64)
    sure = mean_of_cases(found, found.confidence, "mean confidence", "neither")
    right = mean_of_cases(found, correct, "share predicted rightly")
    measures = calibration_measures(found, seed=audited.seed)
    error = measures["adaptive calibration error"]
    by_class = _by_class(audited) if offers(audited.model, "classes") else _Beside()
    after = _with_temperature(audited, answers)
    gap = mean_of_cases(
        found,
        found.confidence - correct,
        "mean confidence less the share predicted rightly",
        "neither",
        (-1.0, 1.0),
    )
    users, over = found.user_count, "users" if found.dependent else "cases"
    answer, side = _answer(error, gap, max(sure.value, right.value), users)
    few = f" {too_few(users, ENOUGH, over)}." if users < ENOUGH else ""
    return Finding(
        answer=answer,
        summary=f"It is sure of {asked.what} at {percent(sure.value)} on average and right in "
        f"{percent(right.value)} of {error.n:,} cases; how sure it is and how often it is right "
        f"differ by {points(error.value)} ({points_between(error)}): "
        f"{side}{after.told}.{few}",
        figures=(
            *_sure_and_right(audited.run.model, sure, right, gap),
            *by_class.figures,
            *(_figure(name, audited.run.model, one) for name, one in measures.items()),
            *(_apart(found, audited.seed) if asked.apart else ()),
            *after.figures,
        ),
        charts=(_chart(found, asked, audited.seed),),
        notes=(asked.note, f"The intervals are over {over}.", *by_class.notes, *after.notes),
    )


class _Answers(NamedTuple):
    logits: Logits
    users: Ints
    """`[N]`: whose case each is."""

    def predictions(self, temperature: float = 1.0, *, protocol: str) -> Predictions:
        return predictions_from_logits(self.logits, temperature, protocol).of_users(self.users)


def _answers(audited: AuditContext, held: HeldOut) -> _Answers:
    most = TIMES * audited.cases
    model = audited.model
    if not offers(model, "classes"):
        cases = audited.draw(held, most)
        logits = next_item_logits(model, cases, audited.length)
        return _Answers(_among_unmet(logits, cases), cases.users)
    put = questions(audited, held, most)
    logits = class_logits(model, put.batch, put.targets, put.true, memory=audited.memory)
    return _Answers(logits, put.cases.users.repeat(put.targets.shape[1]))


def _among_unmet(logits: Logits, cases: Cases) -> Logits:
    """Without the items that a user has met, as they are recommended, but for what came."""

    def go_through() -> Iterator[tuple[Tensor, Tensor]]:
        start = 0
        for scores, came in logits():
            row, item = seen_items(cases[start : start + len(scores)])
            start += len(scores)
            unmet = scores.index_put((row.to(came.device), item.to(came.device)), IMPOSSIBLE)
            yield unmet.scatter(1, came[:, None], scores.gather(1, came[:, None])), came

    return go_through


class _Beside(NamedTuple):
    """What is told beside the calibration itself."""

    told: str = ""
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()


def _by_class(audited: AuditContext) -> _Beside:
    """How much of each class the same questions find told rightly."""
    put = questions(audited, HELD, TIMES * audited.cases)
    try:
        found = class_accuracy(
            audited.model,
            put.cases,
            put.targets[:, 1:].cpu().numpy(),
            audited.length,
            ratings_of(audited.split, put.cases),
            audited.seed,
        )
    except WhenceError as problem:
        return _Beside(notes=(str(problem),))
    return _Beside(
        figures=tuple(
            Figure(
                f"predicted rightly, '{name}'",
                audited.run.model,
                one,
                BY_CLASS[name].format(value=f"{percent(one.value)} ({between(one)})"),
            )
            for name, one in found.items()
            if one is not None
        ),
        notes=("The shares of each class are means over users.",),
    )


def _with_temperature(audited: AuditContext, answers: _Answers) -> _Beside:
    """Fitted on validation events, where there are some and they have a best temperature."""
    if not len(audited.split.held[FITTED_ON]):
        return _Beside(notes=("Without validation events, no temperature can be fitted.",))
    try:
        temperature = fit_temperature(_answers(audited, FITTED_ON).logits)
    except InputError as problem:
        return _Beside(notes=(str(problem),))
    scaled = answers.predictions(temperature, protocol=f"{audited.run.model}, {HELD} events")
    error = adaptive_calibration_error(scaled, seed=audited.seed)
    said = f"a temperature of {temperature:.2g}, fitted on {FITTED_ON} events"
    return _Beside(
        f"; with all scores divided by {said}, it would be {points(error.value)}",
        (
            Figure(
                "adaptive calibration error after temperature scaling",
                audited.run.model,
                error,
                f"With all scores divided by {said}, they would differ by {points(error.value)} "
                f"({points_between(error)}); no prediction changes by it.",
            ),
        ),
    )


def _sure_and_right(model: str, sure: Measure, right: Measure, gap: Measure) -> tuple[Figure, ...]:
    return (
        Figure(
            "mean confidence",
            model,
            sure,
            f"On average it gives what it predicts a probability of {percent(sure.value)} "
            f"({between(sure)}).",
        ),
        Figure(
            "predicted rightly",
            model,
            right,
            f"It is right in {percent(right.value)} of the cases ({between(right)}).",
        ),
        Figure(
            "overconfidence",
            model,
            gap,
            f"Taken together it is {points(abs(gap.value))} "
            f"{'surer' if gap.value >= 0 else 'less sure'} than right (surer by "
            f"{points_between(gap)}).",
        ),
    )


def _figure(name: str, model: str, one: Measure) -> Figure:
    said = READINGS[name].format(
        bins=FIFTEEN,
        points=points(one.value),
        between=points_between(one),
        rounded=rounded(one, 3),
    )
    return Figure(name, model, one, said)


def _apart(found: Predictions, seed: int) -> list[Figure]:
    """The error of what came next and of what was never met, as Jain (2019) has them apart."""
    errors = {
        SHOWN[name]: expected_calibration_error(one, seed=seed)
        for name, one in positives_and_negatives(found).items()
        if len(one)
    }
    return [
        Figure(
            "expected calibration error",
            name,
            one,
            f"Of {name} alone, how sure the model is and how often it is right differ by "
            f"{points(one.value)} ({points_between(one)}).",
        )
        for name, one in errors.items()
    ]


def _chart(found: Predictions, asked: Asked, seed: int) -> Chart:
    shown: Mapping[str, Predictions] = {"all cases": found}
    if asked.apart:
        kinds = positives_and_negatives(found)
        shown = {**shown, **{SHOWN[name]: one for name, one in kinds.items() if len(one)}}
    rows = tuple(
        {"panel": name, **row}
        for name, one in shown.items()
        for row in reliability(one, asked.bins, seed).rows()
    )
    told = (
        " What came next and what was never met are shown apart too: of one kind alone, a model "
        "may be too sure that is calibrated on both."
        if asked.apart
        else ""
    )
    return Chart(
        "reliability",
        "how often it is right, by how sure it is",
        "Each bar is a group of like confidence, and its height how often the model was right; on "
        f"the dashed line it is as often right as sure, below it too sure.{told}",
        rows,
    )


def _answer(error: Measure, gap: Measure, scale: float, users: int) -> tuple[Answer, str]:
    """By the error as a share of what the model says, since few are sure of one item of many.

    Bins of few cases have gaps by chance; whether it is too sure as a whole takes fewer to tell.
    """
    low, high = gap.interval
    clear = low > 0 or high < 0
    if error.interval[0] == 0 and not clear:
        said = "no more than chance may do to a calibrated model"
        return "partly" if users < ENOUGH else "yes", said
    size = error.value if error.interval[0] > 0 else abs(gap.value)
    off = size / scale if scale else np.inf
    answer: Answer = "yes" if off < TENTH else "partly" if off < THIRD else "no"
    if not clear or abs(gap.value) < error.value / 2:
        side = "it is too sure of some and not sure enough of others"
    else:
        side = "it is too sure" if gap.value > 0 else "it is not sure enough"
    return "partly" if users < ENOUGH else answer, side
