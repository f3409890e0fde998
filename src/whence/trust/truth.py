"""Truth: on a world, does the explainer put the true cause first?"""

from __future__ import annotations

import numpy as np

from whence.explanation import Explanation
from whence.measure import Measure, mean_measure
from whence.worlds import Questions


def precision_at_cause(explanation: Explanation, questions: Questions) -> Measure:
    """How often the strongest part is the true cause (for taste: an item of the genre).

    "Strongest" is most in favour, or most against where the question is what prevented the target;
    a method without a sign can only say how much. Where several parts are equally strong, the case
    counts with the share of them that is true.
    """
    against = explanation.signed and questions.reason == "prevented"
    strength = -explanation.scores if against else explanation.scores
    strength = np.where(explanation.parts, strength, -np.inf)
    first = strength == strength.max(axis=1, keepdims=True)
    hit = (first & questions.truth).sum(axis=1) / first.sum(axis=1)
    return mean_measure(hit, f"the strongest part is the true reason; {questions.reason} events")
