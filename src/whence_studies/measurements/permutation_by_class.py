"""Figures 2.15, 3.8 and 3.9 (Jain 2019): does shuffled attention change confident predictions?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy import stats

from whence.arrays import Floats
from whence.models import Recommender
from whence.progress import progress_bar
from whence.trust.bins import Binned, EqualMass
from whence.trust.permutation.attention_permutation import REPEATS, check_repeats
from whence.trust.permutation.class_permutation import ClassPermutation, class_permutation
from whence_studies.measurements.candidates import (
    CandidateQuestions,
    ColumnValues,
    UserSample,
    draw_questions,
    over_models,
)
from whence_studies.measurements.measurement import LinePlot, MeasuredRun, Measurement, SeedColumn

KINDS: Final = ("false negatives", "false positives", "all")
PREDICTED: Final = ("predicted liked", "predicted otherwise")
LOWEST: Final = 3
"""The lowest tenth that a confidence among three classes can be in."""
PARTS: Final = 10


@dataclass(frozen=True)
class ShuffleOptions(UserSample):
    """How many users are drawn, and how often their attention is shuffled."""

    shuffles: int = REPEATS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_repeats(self.shuffles)


def change(kind: str) -> str:
    """Return the column of the mean change."""
    return f"|Δp|, {kind}"


def with_confidence(kind: str) -> str:
    """Return the column of the rank correlation of the change with confidence."""
    return f"ρ(|Δp|, confidence), {kind}"


def change_from(kind: str, tenth: int) -> str:
    """Return the column of the mean change in one tenth of confidence."""
    return f"|Δp|, {kind}, confidence {tenth / 10:.1f}–{(tenth + 1) / 10:.1f}"


def change_at(said: str, part: int) -> str:
    """Return the column of the mean median change in a decile of the largest attention."""
    return f"median |Δp|, {said}, attention decile {part}"


CURVES: Final = {
    "permutation": LinePlot(
        title="Change of the predicted probability by confidence",
        x="confidence in the predicted class",
        y="mean |Δp|",
        lines={
            kind: {
                round(tenth / 10 + 0.05, 2): change_from(kind, tenth) for tenth in range(LOWEST, 10)
            }
            for kind in KINDS
        },
    ),
    "permutation by attention": LinePlot(
        title="Median change by concentration of attention",
        x="decile of cases by the largest share of attention",
        y="mean of the median |Δp|",
        lines={
            said: {float(part): change_at(said, part) for part in range(1, PARTS + 1)}
            for said in PREDICTED
        },
    ),
}


def class_permutations(subject: MeasuredRun, options: ShuffleOptions) -> dict[str, SeedColumn]:
    """Return the columns of every seed's model, on the same users and shuffles."""
    questions = draw_questions(subject.split, subject.held, options)
    models = subject.run.models.values()
    bar = progress_bar("shuffling", len(models), subject.show_progress, transient=True)
    found = [measure_model(model, questions, options.shuffles) for model in bar.track(models)]
    protocol = (
        f"{questions.protocol}; |Δp| of the class predicted with unshuffled attention, mean over "
        f"{options.shuffles} shuffles that all items of a user share; false negatives are liked "
        "items predicted otherwise, false positives the reverse"
    )
    return over_models(found, protocol)


def measure_model(model: Recommender, questions: CandidateQuestions, shuffles: int) -> ColumnValues:
    """Return each column with its number of cases."""
    permuted = class_permutation(model, *questions.of(model), repeats=shuffles)
    unasked = ~questions.asked
    permuted = replace(
        permuted,
        change=np.where(unasked, np.nan, permuted.change),
        median=np.where(unasked, np.nan, permuted.median),
    )
    return {**_by_kind(permuted), **_by_confidence(permuted), **_by_attention(permuted)}


def _by_kind(permuted: ClassPermutation) -> ColumnValues:
    columns: dict[str, tuple[float, int]] = {}
    for kind, rows in permuted.kinds().items():
        some = rows & ~np.isnan(permuted.change)
        changes, confidence = permuted.change[some], permuted.confidence[some]
        if len(changes):
            columns[change(kind)] = float(changes.mean()), len(changes)
            columns[with_confidence(kind)] = rank_correlation(changes, confidence), len(changes)
    return columns


def rank_correlation(one: Floats, other: Floats) -> float:
    """Return Spearman's ρ over cases; NaN if either side is constant."""
    if min(np.ptp(one), np.ptp(other)) == 0:
        return float("nan")
    return float(stats.spearmanr(one, other).statistic)


def _by_confidence(permuted: ClassPermutation) -> ColumnValues:
    columns: dict[str, tuple[float, int]] = {}
    for kind, found in permuted.by_confidence().items():
        for edge, mean, count in _bins(found):
            columns[change_from(kind, round(10 * edge))] = mean, count
    return columns


def _by_attention(permuted: ClassPermutation) -> ColumnValues:
    """Return the columns in ten equal-mass bins, or none if ties leave fewer bins."""
    columns: dict[str, tuple[float, int]] = {}
    for said, found in permuted.by_attention(EqualMass(PARTS)).items():
        if len(found.count) == PARTS:
            for part, (_, mean, count) in enumerate(_bins(found), start=1):
                columns[change_at(said, part)] = mean, count
    return columns


def _bins(found: Binned) -> list[tuple[float, float, int]]:
    """Return the lower edge, mean and count of each bin."""
    return list(
        zip(found.edges[:-1].tolist(), found.mean.tolist(), found.count.tolist(), strict=True)
    )


MEASUREMENT: Final = Measurement(
    tuple(name(kind) for name in (change, with_confidence) for kind in KINDS),
    class_permutations,
    ShuffleOptions,
    CURVES,
)
