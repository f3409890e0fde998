"""Entropy: over how many parts does an explainer spread the importance?"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import entr

from whence.arrays import Bools, Floats
from whence.explanation import Explanation
from whence.measure import Measure, by_case, check_sizes, mean_over_cases


def importance_entropy(explanation: Explanation) -> Measure:
    """The mean entropy in bits of the importances as shares: 0 if one part has all of it.

    The most is log₂ of the number of parts, if all share alike; so there is no end to it that holds
    for all cases, and the protocol says what it would be here. A model's own slots are no parts:
    attention to them is taken off and the rest renormalised. A history without parts is left out.
    """
    found = entropy(explanation.magnitude(), explanation.parts)
    counts = explanation.parts.sum(axis=1)
    alike = np.log2(counts[counts > 0]).mean() if counts.any() else 0.0
    protocol = (
        "mean over histories of the entropy in bits of the parts' shares of the importance; "
        f"equal shares would have {alike:.2f}"
    )
    return mean_over_cases(found, protocol, "neither", (0.0, math.inf))


def entropy(sizes: Floats, parts: Bools) -> Floats:
    """`[B]`: H = −Σ p·log₂ p of each row's shares p of its parts; NaN where there is no part.

    `sizes` `[B, n]` are from 0 on; where no part matters, all share alike.
    """
    return by_case(_entropy, parts, sizes, numbers_each=parts.shape[-1])


def _entropy(sizes: Floats, parts: Bools) -> Floats:
    sizes = np.where(parts, sizes, 0.0)
    check_sizes(sizes)
    bits: Floats = entr(shares(sizes, parts)).sum(axis=1) / math.log(2)
    return bits


def shares(sizes: Floats, parts: Bools) -> Floats:
    """`[…, n]`: renormalised to 1 over the parts; all alike where all are 0."""
    sizes = np.where((sizes > 0).any(axis=-1, keepdims=True), sizes, parts)
    with np.errstate(invalid="ignore"):
        found: Floats = sizes / sizes.sum(axis=-1, keepdims=True)
    return found
