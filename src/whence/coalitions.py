"""The sizes of the coalitions that Shapley values are estimated from.

The Shapley kernel (Lundberg & Lee 2017) gives a coalition of `s` of `n` parts the weight
(n − 1) / (C(n, s) · s · (n − s)). There are C(n, s) coalitions of a size. So all of a size together
weigh 1 / (s(n − s)), up to a constant, and those of one size weigh the same.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Floats


def size_shares(count: int) -> Floats:
    """Return `[n + 1]`: the share of each size from 0 to n among coalitions of n parts.

    The sizes 0 and n have an infinite weight; they are not drawn, and their share is 0. For a
    single part all shares are 0.
    """
    sizes = np.arange(1, count)
    weights = 1 / (sizes * (count - sizes))
    return np.pad(weights / weights.sum() if count > 1 else weights, 1)


class SizeSampler:
    """Draws a size for each of many numbers of parts, with the probabilities of `size_shares`.

    1 / (s(n − s)) is (1/s + 1/(n − s)) / n. So it draws s in proportion to 1/s, and replaces it by
    n − s with probability ½.
    """

    def __init__(self, longest: int, device: str = "cpu") -> None:
        harmonic = np.cumsum(1 / np.arange(1, longest + 1))
        self.harmonic = torch.from_numpy(harmonic).to(device)
        """1, 1 + 1/2, 1 + 1/2 + 1/3, …"""

    def draw(self, counts: Tensor, numbers: Tensor) -> Tensor:
        """Return sizes from 1 to n − 1, from random integers of 62 bits; n itself if n < 2."""
        last = (counts - 1).clamp(min=1)
        uniform = (numbers >> 9).double() * 2.0**-53
        reached = uniform * self.harmonic[last - 1]
        size = 1 + torch.searchsorted(self.harmonic, reached, right=True)
        size = torch.minimum(size, last)
        mirrored = torch.where(numbers & 1 == 1, counts - size, size)
        return torch.where(counts < 2, counts, mirrored)
