"""The block that SASRec and BERT4Rec are built of, as Baumhauer (2021) prints it.

g(S)     = Dropout(Attention(S, S, S)) + S
Block(S) = LayerNorm(Dropout(FFN(LayerNorm(g(S)))) + g(S))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whence.contract import PAD
from whence.models.packed import Windows
from whence.randomness import DropoutFunction, no_dropout


class Embedded(Protocol):
    """A model with a table of items, whose row 0 pads, and one of positions."""

    item: nn.Parameter
    position: nn.Parameter

    def modules(self) -> Iterator[nn.Module]:
        """As of every PyTorch module."""


def initialise(model: Embedded, spread: float, generator: torch.Generator) -> None:
    """Embeddings from a normal of that spread, layers after Glorot and Bengio (2010)."""
    nn.init.normal_(model.item.data[1:], std=spread, generator=generator)
    nn.init.normal_(model.position.data, std=spread, generator=generator)
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def _square(width: int, bias: bool = True) -> nn.Linear:
    """A layer that waits for its weights, where PyTorch would draw them from its global state."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, width, width, bias=bias)
    return layer


def columns_of_padding(batch: Tensor) -> int:
    """How many of the first columns hold no item; never all of them."""
    used = (batch != PAD).any(dim=0)
    used[-1:] = True
    return int(used.int().argmax()) if len(used) else 0


class Block(nn.Module):
    """One self-attention block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = _square(width, bias=False)  # W^Q of all heads side by side
        self.key = _square(width, bias=False)
        self.value = _square(width, bias=False)
        self.output = _square(width, bias=False)  # W^O
        self.inner_norm = nn.LayerNorm(width)
        self.expand = _square(width)  # W_1, b_1
        self.contract = _square(width)  # W_2, b_2
        self.outer_norm = nn.LayerNorm(width)

    def attention(self, rows: Tensor, visible: Tensor) -> Tensor:
        """`[B, h, n, n]`: softmax(QKᵀ/√(d/h)) over the visible columns.

        A row that sees nothing attends to nothing: its weights are all 0.
        """
        logits = self.logits(rows)
        logits = logits.masked_fill(~visible, torch.finfo(logits.dtype).min)
        weights: Tensor = logits.softmax(dim=-1) * visible
        return weights

    def logits(self, rows: Tensor) -> Tensor:
        """`[B, h, n, n]`: QKᵀ/√(d/h)."""
        query, key = self._heads(self.query(rows)), self._heads(self.key(rows))
        logits: Tensor = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        return logits

    def forward(self, rows: Tensor, weights: Tensor, drop: DropoutFunction) -> Tensor:
        """The block's output rows, given its attention weights."""
        mixed = weights @ self._heads(self.value(rows))
        return self._mixed(rows, mixed.transpose(1, 2).flatten(2), drop)  # heads side by side

    def packed(self, rows: Tensor, windows: Windows, drop: DropoutFunction) -> Tensor:
        """The same for the rows `[T, d]` of packed histories."""
        projections = torch.cat((self.query.weight, self.key.weight, self.value.weight))
        return self._mixed(rows, windows.attend(F.linear(rows, projections), self.heads), drop)

    def _mixed(self, rows: Tensor, mixed: Tensor, drop: DropoutFunction) -> Tensor:
        """From what the attention brought to the output rows."""
        return self.feed_forward(drop(self.output(mixed), onto=rows), drop)

    def feed_forward(self, g: Tensor, drop: DropoutFunction = no_dropout) -> Tensor:
        """LayerNorm(Dropout(FFN(LayerNorm(g))) + g)."""
        out: Tensor = self.outer_norm(drop(self.ffn(g), onto=g))
        return out

    def ffn(self, g: Tensor) -> Tensor:
        """FFN(LayerNorm(g))."""
        inner = self.expand(self.inner_norm(g))
        out: Tensor = self.contract(F.leaky_relu(inner, inplace=not torch.is_grad_enabled()))
        return out

    def _heads(self, rows: Tensor) -> Tensor:
        """`[B, n, d]` to `[B, h, n, d/h]`."""
        batch, slots, width = rows.shape
        return rows.view(batch, slots, self.heads, width // self.heads).transpose(1, 2)
