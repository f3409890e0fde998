"""Entropy: how many parts does an explainer spread the importance over?"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import entr

from whence.arrays import Bools, Floats
from whence.explanation import Explanation
from whence.measure import Measure, by_case, check_sizes, mean_over_cases
from whence.trust.measures import MEASURES, MeasureSpec


def importance_entropy(explanation: Explanation) -> Measure:
    """Return the mean entropy in bits of the parts' shares of importance: 0 if one part has all.

    The largest value is log₂ of the number of parts, which differs between cases; the protocol says
    what it would be on average. Attention to the model's own slots, which are no parts, is ignored
    and the rest renormalized. Histories without parts are left out.
    """
    found = entropy(explanation.magnitude(), explanation.parts)
    counts = explanation.parts.sum(axis=1)
    equal = np.log2(counts[counts > 0]).mean() if counts.any() else 0.0
    protocol = (
        "mean over histories of the entropy in bits of the parts' shares of the importance; "
        f"equal shares would have {equal:.2f}"
    )
    return mean_over_cases(found, protocol, "neither", (0.0, math.inf))


def entropy(sizes: Floats, parts: Bools) -> Floats:
    """Return H = −Σ p·log₂ p of the parts' shares p of each row `[B]`; NaN without parts.

    `sizes` `[B, n]` must not be negative; if all are 0, the parts have equal shares.
    """
    return by_case(_entropy, parts, sizes, numbers_each=parts.shape[-1])


def _entropy(sizes: Floats, parts: Bools) -> Floats:
    sizes = np.where(parts, sizes, 0.0)
    check_sizes(sizes)
    bits: Floats = entr(shares(sizes, parts)).sum(axis=1) / math.log(2)
    return bits


def shares(sizes: Floats, parts: Bools) -> Floats:
    """Return sizes normalized to sum 1 over the parts `[…, n]`; equal shares if all are 0."""
    sizes = np.where((sizes > 0).any(axis=-1, keepdims=True), sizes, parts)
    with np.errstate(invalid="ignore"):
        found: Floats = sizes / sizes.sum(axis=-1, keepdims=True)
    return found


MEASURES.add(
    "entropy",
    MeasureSpec(
        importance_entropy,
        "How many parts is the importance spread over, in bits?",
        "neither",
        (0.0, math.inf),
        lambda small: small.two[:1],
        "Shannon (1948)",
    ),
)
