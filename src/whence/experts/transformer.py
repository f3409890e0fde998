"""The interpretable Transformer from a known first half to a second, and the ordinary counterpart.

Three layers encode the first half and three decode the second (Vaswani et al. 2017), as in the
published program for sessions. There are no masks and no positional embeddings, because the rows
hold their own positions, and normalization has no gain or bias. Experts are linked between layers.
In attention from the second half to the first, each expert attends to its own encoding only.

Queries, keys and values come from layers that keep experts apart (`InputLinear`, `LinkedLinear`),
so an expert's heads see no more than the expert. Rows are the steps of cases, case after case.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whence.errors import InputError
from whence.experts.family import Family
from whence.experts.linear import InputLinear, LinkedLinear
from whence.experts.selection import DEFAULT, Recipe
from whence.experts.sequential import TWO_CLASSES, GroupColumns, SequentialModel, check_halves
from whence.experts.targets import Target

N_LAYERS, N_HEADS = 3, 8
NEGATIVE_SLOPE = 0.3
"""Slope of the leaky ReLU below 0."""
NORM_EPSILON = 1e-6
"""Added to the variance, as in the published code."""

RowLayer = InputLinear | LinkedLinear
"""A layer that reads rows and keeps experts apart."""
NewRowLayer = Callable[[int, bool], RowLayer]
"""Makes such a layer from its number of outputs and whether it has a bias."""


class ExpertNorm(nn.Module):
    """Layer normalization of each expert, `[H, w, R]`; without gain and bias, as published."""

    def __init__(self, family: Family, dim: int, *, learned: bool = False) -> None:
        super().__init__()
        shape = (len(family), dim, 1)
        self.gain = nn.Parameter(torch.ones(shape)) if learned else None
        self.bias = nn.Parameter(torch.zeros(shape)) if learned else None

    def forward(self, features: Tensor) -> Tensor:
        """Return (h − mean) / √(variance + ε)."""
        # `torch.var_mean` reduces across rows element by element, which is slow in this layout.
        centred = features - features.mean(dim=1, keepdim=True)
        normal = centred * (centred.square().mean(dim=1, keepdim=True) + NORM_EPSILON).rsqrt()
        if self.gain is None or self.bias is None:
            return normal
        return torch.addcmul(self.bias, normal, self.gain)


class ExpertAttention(nn.Module):
    """Multi-head attention in which every expert has its own heads and its own W^O.

    `query` has `dim` outputs. `memory` has twice as many: the keys, then the values.
    """

    def __init__(
        self,
        family: Family,
        query: RowLayer,
        memory: RowLayer,
        dim: int,
        n_heads: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if n_heads < 1 or dim % n_heads:
            raise InputError(
                f"A dim of {dim} cannot be split among {n_heads} heads. Choose a number of heads "
                "that divides it."
            )
        self.n_heads, self.query, self.memory = n_heads, query, memory
        self.output = LinkedLinear(family, dim, dim, generator, bias=False, linked=False)

    def forward(
        self,
        rows: Tensor,
        remembered: Tensor,
        steps: int,
        visible: Tensor | None = None,
        detach: bool = True,
    ) -> Tensor:
        """Attend from `rows`, of `steps` a case, to `remembered`; return `[H, dim, B·n]`.

        `visible` `[B, q, n]` restricts which remembered steps a query may attend to.
        """
        queries = self.query(rows, detach)
        keys, values = self.memory(remembered, detach).chunk(2, dim=1)
        cases = queries.shape[-1] // steps
        weights = self._weights(self._heads(queries, cases), self._heads(keys, cases), visible)
        mixed = weights.mT @ self._heads(values, cases)
        joined = mixed.permute(1, 3, 0, 2).reshape(len(queries), -1, cases * steps)
        out: Tensor = self.output(joined)
        return out

    def attentions(self, rows: Tensor, remembered: Tensor, steps: int) -> Tensor:
        """Return the attention weights `[B, H, heads, q, n]`."""
        queries, (keys, _) = self.query(rows, False), self.memory(remembered, False).chunk(2, dim=1)
        cases = queries.shape[-1] // steps
        weights = self._weights(self._heads(queries, cases), self._heads(keys, cases), None)
        by_expert: Tensor = weights.mT.unflatten(1, (-1, self.n_heads))
        return by_expert

    def _weights(self, queries: Tensor, keys: Tensor, visible: Tensor | None) -> Tensor:
        """Return softmax(KQᵀ/√d) as `[B, H·heads, n, q]`; the published code omits the root.

        Queries are columns, because a softmax down columns is vectorised and one along short rows
        is not.
        """
        logits = keys @ queries.mT / queries.shape[-1] ** 0.5
        if visible is not None:
            logits = logits.masked_fill(~visible.mT[:, None], torch.finfo(logits.dtype).min)
        weights: Tensor = logits.softmax(dim=-2)
        return weights

    def _heads(self, features: Tensor, cases: int) -> Tensor:
        """Reshape `[H, dim, B·n]` to `[B, H·heads, n, d]`: the heads of all experts together."""
        heads = len(features) * self.n_heads
        split = features.reshape(heads, -1, cases, features.shape[-1] // cases)
        return split.permute(2, 0, 3, 1).contiguous()


class FeedForward(nn.Module):
    """Two layers of each expert alone, with a residual connection and normalization."""

    def __init__(self, family: Family, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.first = LinkedLinear(family, dim, dim, generator, linked=False)
        self.second = LinkedLinear(family, dim, dim, generator, linked=False)
        self.norm = ExpertNorm(family, dim)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the same shape."""
        fed: Tensor = self.norm(rows + self.second(F.leaky_relu(self.first(rows), NEGATIVE_SLOPE)))
        return fed


class EncoderLayer(nn.Module):
    """Self-attention over the rows of a case, then a feed-forward block."""

    def __init__(
        self,
        family: Family,
        new_layer: NewRowLayer,
        dim: int,
        n_heads: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.own = new_layer(dim, True)
        query, memory = new_layer(dim, False), new_layer(2 * dim, False)
        self.attention = ExpertAttention(family, query, memory, dim, n_heads, generator)
        self.norm = ExpertNorm(family, dim)
        self.feed = FeedForward(family, dim, generator)

    def self_attend(self, rows: Tensor, steps: int, detach: bool) -> Tensor:
        """Combine each row with the others of its case."""
        mixed = self.own(rows, detach) + self.attention(rows, rows, steps, detach=detach)
        normal: Tensor = self.norm(mixed)
        return normal

    def forward(self, rows: Tensor, steps: int, detach: bool = True) -> Tensor:
        """Return `[H, dim, B·m]`."""
        fed: Tensor = self.feed(self.self_attend(rows, steps, detach))
        return fed


class DecoderLayer(EncoderLayer):
    """An encoder layer that also attends to the encoded first half."""

    def __init__(
        self,
        family: Family,
        new_layer: NewRowLayer,
        dim: int,
        n_heads: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__(family, new_layer, dim, n_heads, generator)
        query, memory = (
            LinkedLinear(family, dim, out_features, generator, bias=False, linked=False)
            for out_features in (dim, 2 * dim)
        )
        self.across = ExpertAttention(family, query, memory, dim, n_heads, generator)
        self.across_norm = ExpertNorm(family, dim)

    def forward(  # type: ignore[override]
        self, rows: Tensor, encoded: Tensor, steps: int, detach: bool = True
    ) -> Tensor:
        """Return `[H, dim, B·n]`."""
        rows = self.self_attend(rows, steps, detach)
        rows = self.across_norm(rows + self.across(rows, encoded, steps))
        fed: Tensor = self.feed(rows)
        return fed

    def cross_attentions(self, rows: Tensor, encoded: Tensor, steps: int) -> Tensor:
        """Return the attention from each row to each encoded step, `[B, H, heads, n, m]`."""
        return self.across.attentions(self.self_attend(rows, steps, detach=False), encoded, steps)


class InterpretableTransformer(SequentialModel):
    """A Transformer of experts with `dim` features and `n_heads` heads each."""

    def __init__(
        self,
        family: Family,
        upcoming: GroupColumns,
        dim: int,
        generator: torch.Generator,
        *,
        n_layers: int = N_LAYERS,
        n_heads: int = N_HEADS,
        target: Target = TWO_CLASSES,
        recipe: Recipe = DEFAULT,
        linked: bool = True,
    ) -> None:
        super().__init__(family, target, recipe)
        seen = family.columns_of(upcoming)

        def known_layer(out_features: int, bias: bool) -> RowLayer:
            return InputLinear(family, out_features, generator, bias=bias)

        def upcoming_layer(out_features: int, bias: bool) -> RowLayer:
            return InputLinear(family, out_features, generator, bias=bias, columns=seen)

        def linked_layer(out_features: int, bias: bool) -> RowLayer:
            return LinkedLinear(family, dim, out_features, generator, bias=bias, linked=linked)

        self.encoder = nn.ModuleList(
            EncoderLayer(family, linked_layer if layer else known_layer, dim, n_heads, generator)
            for layer in range(n_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(family, linked_layer if layer else upcoming_layer, dim, n_heads, generator)
            for layer in range(n_layers)
        )
        self.last = linked_layer(target.n_outputs, True)

    def _expert_outputs(self, known: Tensor, upcoming: Tensor, detach: bool) -> Tensor:
        encoded, rows = self._encoded(known, detach), upcoming.flatten(0, 1)
        for layer in self.decoder:
            rows = layer(rows, encoded, upcoming.shape[1], detach)
        outputs: Tensor = self.last(rows, detach)
        return outputs

    def cross_attentions(self, known: Tensor, upcoming: Tensor) -> list[Tensor]:
        """Return one `[B, H, heads, n, m]` per layer: attention from upcoming to known steps.

        The weights apply to the encoded steps, which already mix in the other steps.
        """
        check_halves(known, upcoming)
        if not upcoming.shape[:2].numel():
            raise InputError("There is no upcoming step to attend from. Pass at least one.")
        encoded, rows = self._encoded(known, detach=False), upcoming.flatten(0, 1)
        found = []
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            found.append(layer.cross_attentions(rows, encoded, upcoming.shape[1]))
            rows = layer(rows, encoded, upcoming.shape[1], detach=False)
        return found

    def _encoded(self, known: Tensor, detach: bool) -> Tensor:
        """Return `[H, dim, B·m]`."""
        rows = known.flatten(0, 1)
        for layer in self.encoder:
            rows = layer(rows, known.shape[1], detach)
        return rows


class OrdinaryTransformer(InterpretableTransformer):
    """One network that sees everything, as wide as all experts of the other together."""

    def __init__(
        self,
        family: Family,
        upcoming: GroupColumns,
        dim: int,
        generator: torch.Generator,
        *,
        n_layers: int = N_LAYERS,
        n_heads: int = N_HEADS,
        target: Target = TWO_CLASSES,
    ) -> None:
        super().__init__(
            family.as_one(),
            upcoming,
            len(family) * dim,
            generator,
            n_layers=n_layers,
            n_heads=n_heads,
            target=target,
        )
