"""Truth: on a world, does the explainer put the true cause first, and on the right side?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from whence.arrays import Floats
from whence.errors import InputError
from whence.explanation import Explanation
from whence.measure import Measure, mean_measure
from whence.worlds import Questions


def precision_at_cause(explanation: Explanation, questions: Questions) -> Measure:
    """How often the strongest part is the true cause (for taste: an item of the genre)."""
    hits = hits_at_cause(explanation, questions)
    return mean_measure(hits, f"the strongest part is the true reason; {questions.reason} events")


def hits_at_cause(explanation: Explanation, questions: Questions) -> Floats:
    """`[B]`: 1 where the strongest part is the true cause, else 0.

    "Strongest" is most in favour, or most against where the question is what prevented the target;
    a method without a sign can only say how much. Where several parts are equally strong, the case
    counts with the share of them that is true.
    """
    _check(explanation, questions)
    against = explanation.signed and questions.reason == "prevented"
    strength = -explanation.scores if against else explanation.scores
    strength = np.where(explanation.parts, strength, -np.inf)
    first = strength == strength.max(axis=1, keepdims=True)
    hits: Floats = (first & questions.truth).sum(axis=1) / first.sum(axis=1)
    return hits


def sign_at_cause(explanation: Explanation, questions: Questions) -> Measure:
    """How often the true cause speaks for what it caused, or against what it prevented.

    For taste a case counts with the share of the items of the genre that speak for the target. A
    sign of 0 takes no side and is not right; a method without signs cannot be asked.
    """
    _check(explanation, questions)
    if not explanation.signed:
        raise InputError(
            f"{explanation.method} does not tell for from against, so it has no sign at the cause."
        )
    side = -1 if questions.reason == "prevented" else 1
    right = questions.truth & (np.sign(explanation.scores) == side)
    share = right.sum(axis=1) / questions.truth.sum(axis=1)
    return mean_measure(share, f"the true reason has the right sign; {questions.reason} events")


def _check(explanation: Explanation, questions: Questions) -> None:
    """Refuse what was not asked, and where nothing was."""
    if not len(questions.truth):
        raise InputError(f"The world has no {questions.reason} events to ask about.")
    if explanation.scores.shape != questions.truth.shape:
        told, asked = list(explanation.scores.shape), list(questions.truth.shape)
        raise InputError(
            f"An explanation of {told} cases by slots does not answer questions of {asked}."
        )


# Signs: does an explainer tell for from against as a trusted one does?


SURE = 2.0
"""Standard errors that an importance must exceed for its sign to count."""
PROTOCOL = "mean over histories of the share of parts with the sign of the reference"


def sign_agreement(
    explanation: Explanation, reference: Explanation, weighted: bool = False
) -> Measure:
    """The share of a history's parts that speak for or against as they do in the reference.

    Only parts count whose sign the reference is sure of: an importance of more than `SURE` standard
    errors, or any but 0 where it draws nothing. Weighted, each counts by its size there. A method
    without a sign is taken to speak for every part; a sign of 0 takes no side and is not the same.
    Histories without a part that counts are left out.
    """
    side = np.sign(explanation.scores) if explanation.signed else 1.0
    same = side == np.sign(reference.scores)
    weight = np.where(sure_parts(reference), reference.magnitude() if weighted else 1.0, 0.0)
    total = weight.sum(axis=1)
    counts = total > 0
    share = (weight * same).sum(axis=1)[counts] / total[counts]
    sizes = ", by their size there" if weighted else ""
    return mean_measure(share, f"{PROTOCOL}{sizes}; parts of more than {SURE:g} standard errors")


def sure_parts(reference: Explanation) -> npt.NDArray[np.bool_]:
    """`[B, n]`: the parts of which it is sure whether they speak for or against."""
    error = 0.0 if reference.error is None else reference.error
    sure: npt.NDArray[np.bool_] = reference.parts & (reference.magnitude() > SURE * error)
    return sure
