"""How large the coalitions are that parts are weighed by.

Shapley's kernel (Lundberg & Lee 2017) gives a coalition of `s` of `n` parts the weight
(n − 1) / (C(n, s) · s · (n − s)). There are C(n, s) of each size, so that a size has the weight
1 / (s(n − s)), and coalitions of one size have the same.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def size_shares(count: int) -> npt.NDArray[np.float64]:
    """`[n + 1]`: the share of each size from 0 to n among coalitions of n parts.

    That of none and of all, whose weight is infinite, is 0: they are not drawn. A single part has
    no size between.
    """
    sizes = np.arange(1, count)
    weights = 1 / (sizes * (count - sizes))
    return np.pad(weights / weights.sum() if count > 1 else weights, 1)


class Sizes:
    """Draws a size for each of many numbers of parts, by `size_shares`.

    1 / (s(n − s)) is (1/s + 1/(n − s)) / n: so a size is drawn in proportion to 1/s, and in half of
    all cases it is the number of those left out.
    """

    def __init__(self, longest: int, device: str = "cpu") -> None:
        harmonic = np.cumsum(1 / np.arange(1, longest + 1))
        self.harmonic = torch.from_numpy(harmonic).to(device)
        """1, 1 + 1/2, 1 + 1/2 + 1/3, …"""

    def draw(self, counts: Tensor, numbers: Tensor) -> Tensor:
        """From 1 to n − 1 by whole numbers of 62 bits; a single part is all there is."""
        last = (counts - 1).clamp(min=1)
        uniform = (numbers >> 9).double() * 2.0**-53
        reached = uniform * self.harmonic[last - 1]
        size = 1 + torch.searchsorted(self.harmonic, reached, right=True)
        size = torch.minimum(size, last)
        turned = torch.where(numbers & 1 == 1, counts - size, size)
        return torch.where(counts < 2, counts, turned)
