"""The interpretable Transformer from a first half to a second, and the ordinary one beside it.

Three layers encode the first half and three decode the second (Vaswani et al. 2017), as in the
published program for sessions: no masks and no embeddings of positions, for rows say themselves
where they are, and normalisation without gain and bias. Experts are linked between layers; in
attention from the second half to the first, each looks at its own encoding alone.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whence.errors import InputError
from whence.experts.attention import ExpertAttention, ExpertNorm, Reader
from whence.experts.family import Family
from whence.experts.linear import InputLinear, LinkedLinear
from whence.experts.objective import DEFAULT, Recipe
from whence.experts.sequential import TWO_CLASSES, Places, SequentialModel, refuse_other_halves
from whence.experts.targets import Target

LAYERS, HEADS = 3, 8
SLOPE = 0.3
"""Of the leaky ReLU below 0."""

Readers = Callable[[int, bool], Reader]
"""A new layer that reads rows, with so many outputs, with a bias or without."""


class InterpretableTransformer(SequentialModel):
    """Experts of so many features, each with heads of its own."""

    def __init__(
        self,
        family: Family,
        asked: Places,
        width: int,
        generator: torch.Generator,
        *,
        layers: int = LAYERS,
        heads: int = HEADS,
        target: Target = TWO_CLASSES,
        recipe: Recipe = DEFAULT,
        links: bool = True,
    ) -> None:
        super().__init__(family, target, recipe)
        seen = family.columns_of(asked)

        def known_rows(outputs: int, bias: bool) -> Reader:
            return InputLinear(family, outputs, generator, bias=bias)

        def asked_rows(outputs: int, bias: bool) -> Reader:
            return InputLinear(family, outputs, generator, bias=bias, columns=seen)

        def linked(outputs: int, bias: bool) -> Reader:
            return LinkedLinear(family, width, outputs, generator, bias=bias, links=links)

        self.encoder = nn.ModuleList(
            EncoderLayer(family, linked if layer else known_rows, width, heads, generator)
            for layer in range(layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(family, linked if layer else asked_rows, width, heads, generator)
            for layer in range(layers)
        )
        self.last = linked(target.outputs, True)

    def _answers(self, known: Tensor, asked: Tensor, stop: bool) -> Tensor:
        encoded, rows = self._encoded(known, stop), asked.flatten(0, 1)
        for layer in self.decoder:
            rows = layer(rows, encoded, asked.shape[1], stop)
        answers: Tensor = self.last(rows, stop)
        return answers

    def looks(self, known: Tensor, asked: Tensor) -> list[Tensor]:
        """One `[B, H, heads, n, m]` a layer: how far steps asked look at those of the first half.

        They look at what was encoded there, into which steps before have flowed.
        """
        refuse_other_halves(known, asked)
        if not asked.shape[:2].numel():
            raise InputError("There is no step asked that could look at others; give one at least.")
        encoded, rows = self._encoded(known, stop=False), asked.flatten(0, 1)
        found = []
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            found.append(layer.looks(rows, encoded, asked.shape[1]))
            rows = layer(rows, encoded, asked.shape[1], stop=False)
        return found

    def _encoded(self, known: Tensor, stop: bool) -> Tensor:
        """`[H, width, B·m]`."""
        rows = known.flatten(0, 1)
        for layer in self.encoder:
            rows = layer(rows, known.shape[1], stop)
        return rows


class OrdinaryTransformer(InterpretableTransformer):
    """One network that sees everything, as wide as all experts of the other together."""

    def __init__(
        self,
        family: Family,
        asked: Places,
        width: int,
        generator: torch.Generator,
        *,
        layers: int = LAYERS,
        heads: int = HEADS,
        target: Target = TWO_CLASSES,
    ) -> None:
        super().__init__(
            family.as_one(),
            asked,
            len(family) * width,
            generator,
            layers=layers,
            heads=heads,
            target=target,
        )


class EncoderLayer(nn.Module):
    """Rows look at each other, and each is then fed forward."""

    def __init__(
        self,
        family: Family,
        readers: Readers,
        width: int,
        heads: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.own = readers(width, True)
        query, memory = readers(width, False), readers(2 * width, False)
        self.attention = ExpertAttention(family, query, memory, width, heads, generator)
        self.norm = ExpertNorm(family, width)
        self.feed = FeedForward(family, width, generator)

    def looked(self, rows: Tensor, steps: int, stop: bool) -> Tensor:
        """What each row makes of itself and of the others of its case."""
        seen = self.own(rows, stop) + self.attention(rows, rows, steps, stop=stop)
        normal: Tensor = self.norm(seen)
        return normal

    def forward(self, rows: Tensor, steps: int, stop: bool = True) -> Tensor:
        """`[H, width, B·m]`."""
        fed: Tensor = self.feed(self.looked(rows, steps, stop))
        return fed


class DecoderLayer(EncoderLayer):
    """Between the two, rows look at what was encoded of the first half."""

    def __init__(
        self,
        family: Family,
        readers: Readers,
        width: int,
        heads: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__(family, readers, width, heads, generator)
        query, memory = (
            LinkedLinear(family, width, outputs, generator, bias=False, links=False)
            for outputs in (width, 2 * width)
        )
        self.across = ExpertAttention(family, query, memory, width, heads, generator)
        self.across_norm = ExpertNorm(family, width)

    def forward(  # type: ignore[override]
        self, rows: Tensor, encoded: Tensor, steps: int, stop: bool = True
    ) -> Tensor:
        """`[H, width, B·n]`."""
        rows = self.looked(rows, steps, stop)
        rows = self.across_norm(rows + self.across(rows, encoded, steps))
        fed: Tensor = self.feed(rows)
        return fed

    def looks(self, rows: Tensor, encoded: Tensor, steps: int) -> Tensor:
        """`[B, H, heads, n, m]`: how far each row looks at each step encoded."""
        return self.across.looks(self.looked(rows, steps, stop=False), encoded, steps)


class FeedForward(nn.Module):
    """Two layers of each expert alone, added to what they read and normalised."""

    def __init__(self, family: Family, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.first = LinkedLinear(family, width, width, generator, links=False)
        self.second = LinkedLinear(family, width, width, generator, links=False)
        self.norm = ExpertNorm(family, width)

    def forward(self, rows: Tensor) -> Tensor:
        """The same shape."""
        fed: Tensor = self.norm(rows + self.second(F.leaky_relu(self.first(rows), SLOPE)))
        return fed
