"""Figure 3.7 (Jain 2019): calibration of the predicted class, for positives and negatives.

The thesis looks at positives and negatives separately, by tenths of confidence. Even a calibrated
model is over-confident on positives alone, where predicting a negative is always wrong. So the
measurement also covers all items, by today's calibration errors, before and after temperature
scaling. The temperature is fitted on validation events if the split has some, otherwise on half of
the users, and evaluated on the others.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence.data.published_negatives import NEGATIVES
from whence.errors import InputError
from whence.models import Recommender
from whence.progress import progress_bar
from whence.trust.bins import EqualMass, JainBins
from whence.trust.calibration.reliability import reliability
from whence.trust.calibration.temperature import fit_temperature
from whence.trust.predictions import Predictions, logits_of, predictions_from_logits
from whence.trust.target_classes import class_logits, positives_and_negatives
from whence_studies.measurements.candidates import (
    CandidateQuestions,
    ColumnValues,
    UserSample,
    draw_questions,
    over_models,
    validation_questions,
)
from whence_studies.measurements.measurement import LinePlot, MeasuredRun, Measurement, SeedColumn

KINDS: Final = ("positives", "negatives", "all")
ERRORS: Final = (
    "ECE",
    "MCE",
    "equal-mass ECE",
    "equal-mass MCE",
    "Brier score",
    "negative log-likelihood",
)
BEFORE, AFTER = "before scaling", "after scaling"
TEMPERATURE: Final = "temperature"
LOWEST: Final = 3
"""The lowest tenth that a confidence among three classes can be in."""


def gap(kind: str) -> str:
    """Return the column of the mean confidence minus the accuracy; above 0 is over-confident."""
    return f"confidence minus accuracy, {kind}"


def surest_gap(kind: str) -> str:
    """Return the same column for the most confident predictions."""
    return f"{gap(kind)}, confidence ≥ 0.9"


def jain_error(kind: str) -> str:
    """Return the column of the calibration error as in the code of the thesis."""
    return f"ECE in 10 bins, {kind}"


def accuracy_from(kind: str, tenth: int) -> str:
    """Return the column of the accuracy in one tenth of confidence."""
    return f"accuracy of {kind}, confidence {tenth / 10:.1f}–{(tenth + 1) / 10:.1f}"


CURVES: Final = {
    "reliability": LinePlot(
        title="Accuracy by confidence",
        x="confidence in the predicted class",
        y="accuracy",
        lines={
            kind: {
                round(tenth / 10 + 0.05, 2): accuracy_from(kind, tenth)
                for tenth in range(LOWEST, 10)
            }
            for kind in KINDS
        },
        ideal=True,
    )
}


def class_calibration(subject: MeasuredRun, options: UserSample) -> dict[str, SeedColumn]:
    """Return the columns of every seed's model, on the same users."""
    questions = draw_questions(subject.split, subject.held, options)
    apart = subject.held == "test" and len(subject.split.held["validation"])
    fitting = validation_questions(subject.split, options) if apart else None
    models = subject.run.models.values()
    bar = progress_bar("calibration", len(models), subject.show_progress, transient=True)
    found = [measure_model(model, questions, fitting) for model in bar.track(models)]
    protocol = (
        f"{questions.protocol}; confidence is the softmax of the predicted class; ECE and MCE use "
        "15 bins; ECE in 10 bins follows Jain's program and compares accuracy with bin centres; "
        f"one temperature is fitted on {_fitted_on(fitting)}"
    )
    return over_models(found, protocol)


def _fitted_on(fitting: CandidateQuestions | None) -> str:
    """Return, for the protocol, what the temperature is fitted and evaluated on."""
    if fitting is None:
        return "every other of these users and evaluated on the rest"
    return (
        f"{len(fitting.cases):,} validation events, each with {NEGATIVES} random items outside the "
        "user's training events, and evaluated on all test events"
    )


def measure_model(
    model: Recommender, questions: CandidateQuestions, fitting: CandidateQuestions | None
) -> ColumnValues:
    """Return each column with its number of cases; without `fitting`, half of the users fit."""
    answers = _answers(model, questions)
    predictions = answers.predictions()
    by_kind = {**positives_and_negatives(predictions), "all": predictions}
    columns: dict[str, tuple[float, int]] = {}
    for kind, some in by_kind.items():
        if len(some):
            columns |= _kind_columns(kind, some)
    columns |= {name: (value, len(predictions)) for name, value in errors(predictions).items()}
    if fitting is not None:
        return {**columns, **_scaled(_answers(model, fitting), answers)}
    half = answers.users % 2 == 0
    return {**columns, **_scaled(answers.of(half), answers.of(~half))}


class _Answers(NamedTuple):
    """Class logits for every question."""

    logits: Tensor
    """`[N, C]`."""
    true: Tensor
    """`[N]`."""
    users: Tensor
    """`[N]`: the row of the user in the questions."""

    def of(self, rows: Tensor) -> _Answers:
        """Return the answers in these rows."""
        return _Answers(*(one[rows] for one in self))

    def predictions(self, temperature: float = 1.0) -> Predictions:
        return predictions_from_logits(logits_of(self.logits, self.true), temperature)


@torch.no_grad()
def _answers(model: Recommender, questions: CandidateQuestions) -> _Answers:
    pieces = list(class_logits(model, *questions.of(model))())
    logits, true = (torch.cat(one).cpu() for one in zip(*pieces, strict=True))
    asked = torch.from_numpy(questions.asked)
    users = torch.arange(len(asked))[:, None].expand_as(asked)[asked]
    return _Answers(logits[asked.flatten()], true[asked.flatten()], users)


def _kind_columns(kind: str, predictions: Predictions) -> ColumnValues:
    diagram = reliability(predictions, JainBins(predictions.classes))
    tenths = (10 * diagram.edges[:-1]).round().astype(np.int64)
    sure = predictions.confidence >= 0.9
    return {
        gap(kind): (over_confidence(predictions), len(predictions)),
        **(
            {surest_gap(kind): (over_confidence(predictions[sure]), int(sure.sum()))}
            if sure.any()
            else {}
        ),
        jain_error(kind): (diagram.error(), len(predictions)),
        **{
            accuracy_from(kind, int(tenth)): (float(accuracy), int(count))
            for tenth, accuracy, count in zip(tenths, diagram.accuracy, diagram.count, strict=True)
        },
    }


def over_confidence(predictions: Predictions) -> float:
    """Return the mean confidence minus the accuracy."""
    return float(predictions.confidence.mean() - predictions.correct.mean())


def errors(predictions: Predictions) -> dict[str, float]:
    """Return the calibration errors in 15 bins, of equal width and of equal mass."""
    wide, many = (reliability(predictions, bins) for bins in (None, EqualMass()))
    found = (
        wide.error(),
        wide.worst(),
        many.error(),
        many.worst(),
        float(predictions.squares.mean()),
        -float(predictions.log_likelihood.mean()),
    )
    return dict(zip(ERRORS, found, strict=True))


def _scaled(fitted: _Answers, others: _Answers) -> ColumnValues:
    """Fit on some answers and evaluate on others; return nothing if no temperature is best."""
    try:
        temperature = fit_temperature(logits_of(fitted.logits, fitted.true))
    except InputError:
        return {}
    return scaled_errors(temperature, others.predictions(), others.predictions(temperature))


def scaled_errors(temperature: float, before: Predictions, after: Predictions) -> ColumnValues:
    """Return the temperature, and the errors with and without it."""
    return {
        TEMPERATURE: (temperature, len(before)),
        **{
            f"{name}, {when}": (value, len(before))
            for when, predictions in ((BEFORE, before), (AFTER, after))
            for name, value in errors(predictions).items()
        },
    }


OF_SCALING: Final = (
    TEMPERATURE,
    *(f"{name}, {when}" for name in ERRORS for when in (BEFORE, AFTER)),
)
MEASUREMENT: Final = Measurement(
    (
        *(name(kind) for name in (gap, surest_gap, jain_error) for kind in KINDS),
        *ERRORS,
        *OF_SCALING,
    ),
    class_calibration,
    UserSample,
    CURVES,
)
