"""Multi-head attention over experts: each attends with heads of its own to its own rows.

Queries, keys and values are read by a layer that keeps the promise (`InputLinear`, `LinkedLinear`),
so an expert's heads see no more than the expert. Rows are steps of cases, case after case.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from whence.errors import InputError
from whence.experts.family import Family
from whence.experts.linear import InputLinear, LinkedLinear

EPSILON = 1e-6
"""Added to the variance, as in the published code."""


class ExpertNorm(nn.Module):
    """`[H, w, R]` to the same, with a learned gain and bias or, as published, without."""

    def __init__(self, family: Family, width: int, *, learned: bool = False) -> None:
        super().__init__()
        shape = (len(family), width, 1)
        self.gain = nn.Parameter(torch.ones(shape)) if learned else None
        self.bias = nn.Parameter(torch.zeros(shape)) if learned else None

    def forward(self, features: Tensor) -> Tensor:
        """(h − mean) / √(variance + ε)."""
        # `torch.var_mean` goes number by number across rows; means go row by row, as these lie.
        away = features - features.mean(dim=1, keepdim=True)
        normal = away * (away.square().mean(dim=1, keepdim=True) + EPSILON).rsqrt()
        if self.gain is None or self.bias is None:
            return normal
        return torch.addcmul(self.bias, normal, self.gain)


# ...


Reader = InputLinear | LinkedLinear


class ExpertAttention(nn.Module):
    """`[H, width, B·n]` from what a reader makes of the rows, joined by each expert's own W^O.

    `query` has `width` outputs and `memory` twice as many, the keys and then the values.
    """

    def __init__(
        self,
        family: Family,
        query: Reader,
        memory: Reader,
        width: int,
        heads: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise InputError(f"A width of {width} cannot be shared among {heads} heads.")
        self.heads, self.query, self.memory = heads, query, memory
        self.output = LinkedLinear(family, width, width, generator, bias=False, links=False)

    def forward(
        self,
        rows: Tensor,
        remembered: Tensor,
        steps: int,
        visible: Tensor | None = None,
        stop: bool = True,
    ) -> Tensor:
        """Queries from `rows` of so many steps a case, keys and values from those `remembered`.

        `visible` `[B, q, n]` says which steps remembered a query may look at.
        """
        queries = self.query(rows, stop)
        keys, values = self.memory(remembered, stop).chunk(2, dim=1)
        cases = queries.shape[-1] // steps
        weights = self.weights(self._heads(queries, cases), self._heads(keys, cases), visible)
        mixed = weights.mT @ self._heads(values, cases)
        joined = mixed.permute(1, 3, 0, 2).reshape(len(queries), -1, cases * steps)
        out: Tensor = self.output(joined)
        return out

    def looks(self, rows: Tensor, remembered: Tensor, steps: int) -> Tensor:
        """`[B, H, heads, q, n]`: how far each query looks at each step remembered."""
        queries, (keys, _) = self.query(rows, False), self.memory(remembered, False).chunk(2, dim=1)
        cases = queries.shape[-1] // steps
        weights = self.weights(self._heads(queries, cases), self._heads(keys, cases), None)
        by_expert: Tensor = weights.mT.unflatten(1, (-1, self.heads))
        return by_expert

    def weights(self, queries: Tensor, keys: Tensor, visible: Tensor | None) -> Tensor:
        """`[B, H·heads, n, q]`: softmax(KQᵀ/√d), where the published code has √d by a slip.

        A query is a column: a softmax down columns takes many at once, along short rows only one.
        """
        logits = keys @ queries.mT / queries.shape[-1] ** 0.5
        if visible is not None:
            logits = logits.masked_fill(~visible.mT[:, None], torch.finfo(logits.dtype).min)
        weights: Tensor = logits.softmax(dim=-2)
        return weights

    def _heads(self, features: Tensor, cases: int) -> Tensor:
        """`[H, width, B·n]` to `[B, H·heads, n, d]`: the heads of all experts side by side."""
        heads = len(features) * self.heads
        split = features.reshape(heads, -1, cases, features.shape[-1] // cases)
        return split.permute(2, 0, 3, 1).contiguous()
