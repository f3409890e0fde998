"""Audit stage: a model that states 80 % confidence should be right in 80 % of the cases."""

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
from whence.trust.accuracy.class_accuracy import class_accuracy, ratings_of
from whence.trust.audit.class_questions import class_questions
from whence.trust.audit.context import HELD, AuditContext
from whence.trust.audit.finding import ENOUGH, Answer, Chart, Figure, Finding
from whence.trust.audit.stage import STAGES, Stage
from whence.trust.audit.words import between, percent, points, points_between, rounded, too_few
from whence.trust.bins import FIFTEEN, Bins, EqualMass, EqualWidth
from whence.trust.calibration.calibration_error import (
    adaptive_calibration_error,
    calibration_measures,
    expected_calibration_error,
)
from whence.trust.calibration.next_item import next_item_logits
from whence.trust.calibration.reliability import reliability
from whence.trust.calibration.temperature import fit_temperature
from whence.trust.predictions import Logits, Predictions, predictions_from_logits
from whence.trust.resampling import mean_of_cases
from whence.trust.target_classes import class_logits, positives_and_negatives

TIMES: Final = 10
"""This stage uses ten times the audit's histories, because each takes only one input."""
FITTED_ON: Final[HeldOut] = "validation"
TENTH, THIRD = 0.1, 1 / 3
"""The answer is yes or partly up to these errors, relative to the confidence or accuracy."""
IMPOSSIBLE: Final = torch.tensor(-torch.inf)
NEXT, UNSEEN = "next items", "unseen items"
SHOWN: Final = {"positives": NEXT, "negatives": UNSEEN}
"""What the page calls them."""
READINGS: Final = {
    "expected calibration error": "In {bins} bins of equal width, confidence and accuracy differ "
    "by {points} on average ({between}).",
    "maximum calibration error": "In the worst of these bins they differ by {points} ({between}).",
    "adaptive calibration error": "In {bins} bins of equally many cases they differ by {points} on "
    "average ({between}).",
    "Brier score": "The squared distance between the probabilities and the outcome is {rounded}; 0 "
    "is always certain and right, 2 always certain and wrong.",
    "negative log-likelihood": "The outcome surprises the model by {rounded} nats on average; 0 "
    "would mean that it was certain of every outcome.",
}
BY_CLASS: Final = {
    "liked": "It predicts that {value} of the next items that were liked are liked.",
    "nothing": "It predicts that {value} of the unseen items are ignored.",
    "disliked": "It predicts that {value} of the next items that were disliked are disliked.",
}
"""How to read the accuracy of each class."""


class OutputKind(NamedTuple):
    """What a kind of model predicts, and how it is described and drawn."""

    what: str
    """What the confidence is in."""
    bins: Bins
    separate: bool
    """Whether next items and unseen items are also shown separately."""
    note: str


PREDICTS_CLASSES: Final = OutputKind(
    "its prediction",
    EqualWidth(20),
    True,
    "The model predicts whether a user likes an item. It is tested on the item that came next and "
    "on unseen items, which the user has nowhere in the data. These are drawn uniformly, as many "
    "per next item as in training; with another ratio it would be right more or less often.",
)
PREDICTS_ITEMS: Final = OutputKind(
    "its first item",
    EqualMass(FIFTEEN),
    False,
    "The confidence in an item is the softmax of its score among the items that the user has not "
    "seen, and the prediction is right if that item came next. In a model trained with sampled "
    "negatives, such as SASRec, the softmax need not be a probability.",
)


def find_calibration(context: AuditContext) -> Finding:
    """Compare the model's confidence with its accuracy on held-out events."""
    kind = PREDICTS_CLASSES if offers(context.model, "classes") else PREDICTS_ITEMS
    tested = _tested(context, HELD)
    found = tested.predictions(protocol=f"{context.run.model}, {HELD} events")
    correct = found.correct.astype(np.float64)
    sure = mean_of_cases(found, found.confidence, "mean confidence", "neither")
    right = mean_of_cases(found, correct, "share of correct predictions")
    measures = calibration_measures(found, seed=context.seed)
    error = measures["adaptive calibration error"]
    by_class = _by_class(context) if offers(context.model, "classes") else _More()
    after = _with_temperature(context, tested)
    gap = mean_of_cases(
        found,
        found.confidence - correct,
        "mean confidence minus the share of correct predictions",
        "neither",
        (-1.0, 1.0),
    )
    users, over = found.user_count, "users" if found.dependent else "cases"
    answer, side = _answer(error, gap, max(sure.value, right.value), users)
    few = f" {too_few(users, ENOUGH, over)}." if users < ENOUGH else ""
    return Finding(
        answer=answer,
        summary=f"Its mean confidence in {kind.what} is {percent(sure.value)}, and it is right in "
        f"{percent(right.value)} of {error.n:,} cases. In bins of equally many cases, confidence "
        f"and accuracy differ by {points(error.value)} ({points_between(error)}): {side}"
        f"{after.summary}.{few}",
        figures=(
            *_confidence_figures(context.run.model, sure, right, gap),
            *by_class.figures,
            *(_figure(name, context.run.model, one) for name, one in measures.items()),
            *(_separate_errors(found, context.seed) if kind.separate else ()),
            *after.figures,
        ),
        charts=(_chart(found, kind, context.seed),),
        notes=(kind.note, f"The intervals are over {over}.", *by_class.notes, *after.notes),
    )


class _Tested(NamedTuple):
    logits: Logits
    users: Ints
    """`[N]`: the user of each case."""

    def predictions(self, temperature: float = 1.0, *, protocol: str) -> Predictions:
        return predictions_from_logits(self.logits, temperature, protocol).with_users(self.users)


def _tested(context: AuditContext, held: HeldOut) -> _Tested:
    most = TIMES * context.n_cases
    model = context.model
    if not offers(model, "classes"):
        cases = context.draw(held, most)
        logits = next_item_logits(model, cases, context.max_len)
        return _Tested(_among_unseen(logits, cases), cases.users)
    asked = class_questions(context, held, most)
    logits = class_logits(model, asked.batch, asked.targets, asked.true, memory=context.memory)
    return _Tested(logits, asked.cases.users.repeat(asked.targets.shape[1]))


def _among_unseen(logits: Logits, cases: Cases) -> Logits:
    """Exclude the items that a user has seen, except for the one that came next."""

    def iterate() -> Iterator[tuple[Tensor, Tensor]]:
        start = 0
        for scores, came in logits():
            row, item = seen_items(cases[start : start + len(scores)])
            start += len(scores)
            unseen = scores.index_put((row.to(came.device), item.to(came.device)), IMPOSSIBLE)
            yield unseen.scatter(1, came[:, None], scores.gather(1, came[:, None])), came

    return iterate


class _More(NamedTuple):
    """What the finding reports besides the calibration itself."""

    summary: str = ""
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()


def _by_class(context: AuditContext) -> _More:
    """Return the accuracy of each class on the same questions."""
    asked = class_questions(context, HELD, TIMES * context.n_cases)
    try:
        found = class_accuracy(
            context.model,
            asked.cases,
            asked.targets[:, 1:].cpu().numpy(),
            context.max_len,
            ratings_of(context.split, asked.cases),
            context.seed,
        )
    except WhenceError as problem:
        return _More(notes=(str(problem),))
    return _More(
        figures=tuple(
            Figure(
                f"correct predictions, '{name}'",
                context.run.model,
                one,
                BY_CLASS[name].format(value=f"{percent(one.value)} ({between(one)})"),
            )
            for name, one in found.items()
            if one is not None
        ),
        notes=("The shares of each class are means over users.",),
    )


def _with_temperature(context: AuditContext, tested: _Tested) -> _More:
    """Return the error after temperature scaling, if a temperature can be fitted."""
    if not len(context.split.held[FITTED_ON]):
        return _More(notes=("The split has no validation events, so no temperature was fitted.",))
    try:
        temperature = fit_temperature(_tested(context, FITTED_ON).logits)
    except InputError as problem:
        return _More(notes=(str(problem),))
    scaled = tested.predictions(temperature, protocol=f"{context.run.model}, {HELD} events")
    error = adaptive_calibration_error(scaled, seed=context.seed)
    said = f"a temperature of {temperature:.2g} (fitted on {FITTED_ON} events)"
    return _More(
        f". With {said}, they would differ by {points(error.value)}",
        (
            Figure(
                "adaptive calibration error after temperature scaling",
                context.run.model,
                error,
                f"With all scores divided by {said}, they would differ by {points(error.value)} "
                f"({points_between(error)}); no prediction changes.",
            ),
        ),
    )


def _confidence_figures(
    model: str, sure: Measure, right: Measure, gap: Measure
) -> tuple[Figure, ...]:
    return (
        Figure(
            "mean confidence",
            model,
            sure,
            f"It predicts with a probability of {percent(sure.value)} on average "
            f"({between(sure)}).",
        ),
        Figure(
            "correct predictions",
            model,
            right,
            f"It is right in {percent(right.value)} of the cases ({between(right)}).",
        ),
        Figure(
            "overconfidence",
            model,
            gap,
            f"Overall, its confidence is {points(abs(gap.value))} "
            f"{'above' if gap.value >= 0 else 'below'} its accuracy (difference: "
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


def _separate_errors(found: Predictions, seed: int) -> list[Figure]:
    """Return the errors of next items and of unseen items, which Jain (2019) separates."""
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
            f"For {name} alone, confidence and accuracy differ by {points(one.value)} "
            f"({points_between(one)}).",
        )
        for name, one in errors.items()
    ]


def _chart(found: Predictions, kind: OutputKind, seed: int) -> Chart:
    shown: Mapping[str, Predictions] = {"all cases": found}
    if kind.separate:
        kinds = positives_and_negatives(found)
        shown = {**shown, **{SHOWN[name]: one for name, one in kinds.items() if len(one)}}
    rows = tuple(
        {"panel": name, **row}
        for name, one in shown.items()
        for row in reliability(one, kind.bins, seed).rows()
    )
    separate = (
        " Next items and unseen items are also shown separately, because a model that is "
        "calibrated on both together may be overconfident on one of them."
        if kind.separate
        else ""
    )
    return Chart(
        "reliability",
        "accuracy by confidence",
        "Each bar is a group of cases with similar confidence, and its height is the share of "
        "correct predictions. On the dashed line confidence and accuracy are equal; below it the "
        f"model is overconfident.{separate}",
        rows,
    )


def _answer(error: Measure, gap: Measure, scale: float, users: int) -> tuple[Answer, str]:
    """Answer by the error relative to confidence or accuracy, which are low with many items.

    Bins with few cases have random gaps, but fewer cases tell whether a model is overconfident.
    """
    low, high = gap.interval
    clear = low > 0 or high < 0
    if error.interval[0] == 0 and not clear:
        said = "no more than random variation in a calibrated model"
        return "partly" if users < ENOUGH else "yes", said
    size = error.value if error.interval[0] > 0 else abs(gap.value)
    off = size / scale if scale else np.inf
    answer: Answer = "yes" if off < TENTH else "partly" if off < THIRD else "no"
    if not clear or abs(gap.value) < error.value / 2:
        side = "it is overconfident in some cases and underconfident in others"
    else:
        side = "it is overconfident" if gap.value > 0 else "it is underconfident"
    return "partly" if users < ENOUGH else answer, side


STAGES.add(
    "calibration",
    Stage(
        "Calibration",
        "Is the model right as often as its confidence says?",
        find_calibration,
        (
            "confidence and accuracy differ by less than a tenth of the larger one, or no more "
            "than random variation allows",
            "by less than a third",
            "by more",
        ),
        needs=("score",),
        needs_probabilities=True,
    ),
    place=20,
)
