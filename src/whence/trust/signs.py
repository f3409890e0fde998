"""Signs: does an explainer tell for from against as a trusted one does?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from whence.explanation import Explanation
from whence.measure import Measure, mean_measure

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
