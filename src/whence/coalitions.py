"""Coalitions: which parts are present together, and how many of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def size_shares(n: int) -> Floats:
    """`[n + 1]`: how often each size s is drawn for Shapley values, ∝ 1/(s(n − s)); 0 at the ends.

    It is the Shapley kernel summed over the subsets of a size. A single part has no size between.
    """
    size = np.arange(1, n)
    shares: Floats = np.zeros(n + 1)
    shares[1:n] = 1 / (size * (n - size))
    return shares / shares.sum() if n > 1 else shares
