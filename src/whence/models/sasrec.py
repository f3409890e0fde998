"""SASRec (Kang & McAuley 2018) as Baumhauer (2021) prints it.

Items `i_1 … i_n` become rows `S⁽⁰⁾ = e + p`; `b` blocks follow, each

    g(S)     = Dropout(Attention(S, S, S)) + S
    Block(S) = LayerNorm(Dropout(FFN(LayerNorm(g(S)))) + g(S))

and the last row `h_n` scores the item `i` by `h_n · e_i`, with the same `e` as at the input.
Every row sees itself and the rows before it. Padding is on the left, so that the newest item is
always in the last slot, with the last position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whence.contract import PAD, All
from whence.errors import InputError
from whence.models.base import Recommender
from whence.models.lookup import look_up, look_up_few
from whence.models.packed import Packed, Windows
from whence.randomness import Drop, keep

EMBEDDING_SPREAD = 0.02


@dataclass(frozen=True)
class SASRecConfig:
    """The sizes of the network; the defaults are the paper's for MovieLens."""

    length: int = 50
    """n, the longest history it reads."""
    width: int = 64
    """d, the size of an embedding."""
    blocks: int = 2
    """b."""
    heads: int = 1
    """h; each has d/h dimensions."""
    dropout: float = 0.2

    def __post_init__(self) -> None:
        if min(self.length, self.width, self.blocks, self.heads) < 1:
            raise InputError("SASRec needs length, width, blocks and heads of at least 1.")
        if self.width % self.heads:
            raise InputError(f"{self.heads} heads do not divide a width of {self.width} evenly.")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout is at least 0 and below 1, not {self.dropout}.")


def _square(width: int, bias: bool = True) -> nn.Linear:
    """A layer that waits for its weights, where PyTorch would draw them from its global state."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, width, width, bias=bias)
    return layer


def _columns_of_padding(batch: Tensor) -> int:
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
        query, key = self._heads(self.query(rows)), self._heads(self.key(rows))
        logits = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        logits = logits.masked_fill(~visible, torch.finfo(logits.dtype).min)
        weights: Tensor = logits.softmax(dim=-1) * visible
        return weights

    def forward(self, rows: Tensor, weights: Tensor, drop: Drop) -> Tensor:
        """The block's output rows, given its attention weights."""
        mixed = weights @ self._heads(self.value(rows))
        return self._mixed(rows, mixed.transpose(1, 2).flatten(2), drop)  # heads side by side

    def packed(self, rows: Tensor, windows: Windows, drop: Drop) -> Tensor:
        """The same for the rows `[T, d]` of packed histories."""
        projections = torch.cat((self.query.weight, self.key.weight, self.value.weight))
        return self._mixed(rows, windows.attend(F.linear(rows, projections), self.heads), drop)

    def _mixed(self, rows: Tensor, mixed: Tensor, drop: Drop) -> Tensor:
        """From what the attention brought to the output rows."""
        g = drop(self.output(mixed), onto=rows)
        ffn = self.contract(F.leaky_relu(self.expand(self.inner_norm(g))))
        out: Tensor = self.outer_norm(drop(ffn, onto=g))
        return out

    def _heads(self, rows: Tensor) -> Tensor:
        """`[B, n, d]` to `[B, h, n, d/h]`."""
        batch, slots, width = rows.shape
        return rows.view(batch, slots, self.heads, width // self.heads).transpose(1, 2)


class SASRec(Recommender):
    """The network. A batch is `[B, n']` item indices with `PAD`, n' up to the length."""

    removal = "attention-column"

    def __init__(self, config: SASRecConfig, item_count: int, generator: torch.Generator) -> None:
        super().__init__()
        self.config: SASRecConfig = config
        self.drops = 1 + 2 * config.blocks
        self.item = nn.Parameter(torch.zeros(1 + item_count, config.width))  # row 0 pads
        self.position = nn.Parameter(torch.zeros(config.length, config.width))
        self.blocks = nn.ModuleList(Block(config.width, config.heads) for _ in range(config.blocks))
        self._initialise(generator)

    def _initialise(self, generator: torch.Generator) -> None:
        """Embeddings from a narrow normal, layers after Glorot and Bengio (2010)."""
        nn.init.normal_(self.item.data[1:], std=EMBEDDING_SPREAD, generator=generator)
        nn.init.normal_(self.position.data, std=EMBEDDING_SPREAD, generator=generator)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight, generator=generator)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def parts(self, batch: Tensor) -> Tensor:
        """Every slot with an item."""
        return batch != PAD

    def embed(self, batch: Tensor) -> Tensor:
        """`e`, without the positions; 0 at padding."""
        return F.embedding(batch + 1, self.item, padding_idx=0)

    def encode(
        self,
        batch: Tensor,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor] | None = None,
        drop: Drop = keep,
    ) -> tuple[Tensor, list[Tensor]]:
        """The rows `S⁽ᵇ⁾` `[B, n, d]` and the attention weights of every block."""
        slots = batch.shape[1]
        if slots > self.config.length:
            raise InputError(f"This SASRec reads {self.config.length} items, not {slots}.")
        real = self.parts(batch)
        causal = torch.ones(slots, slots, dtype=torch.bool, device=batch.device).tril()
        column = real if present is None else real & present
        visible = (causal & column[:, None, :] & real[:, :, None])[:, None]  # M(S): [B, 1, n, n]
        rows = self.embed(batch) if embedded is None else embedded
        rows = drop(rows + self.position[self.config.length - slots :]) * real[..., None]
        used = []
        for depth, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            weights = block.attention(rows, visible) if attention is None else attention[depth]
            rows = block(rows, weights, drop) * real[..., None]
            used.append(weights)
        return rows, used

    def score(
        self,
        batch: Tensor,
        targets: Tensor | All,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """`h_n · e_i`. An absent item's column is masked in every block."""
        if present is not None and attention is not None:
            raise InputError("Parts cannot be removed from attention weights that are given.")
        if attention is None:
            # Whole columns of padding change nothing, and need not be computed.
            used = slice(_columns_of_padding(batch), None)
            batch = batch[:, used]
            present = None if present is None else present[:, used]
            embedded = None if embedded is None else embedded[:, used]
        rows, _ = self.encode(batch, present=present, embedded=embedded, attention=attention)
        newest = rows[:, -1]
        if isinstance(targets, All):
            return newest @ self.item[1:].T
        return (self.embed(targets) @ newest[:, :, None]).squeeze(-1)

    def attentions(self, batch: Tensor) -> list[Tensor]:
        """The weights of every block, as they are outside training."""
        return self.encode(batch)[1]

    def next_scores(self, batch: Packed, targets: Tensor, drop: Drop) -> Tensor:
        """`[T, t]`: after every item, the scores of its targets `[T, t]`."""
        # One look-up for inputs and targets, and so one gradient of the item table.
        embedded = look_up(self.item, torch.cat((batch.items[:, None], targets), dim=1))
        item, target = embedded.split((1, targets.shape[1]), dim=1)
        rows = drop(item[:, 0] + look_up_few(self.position, batch.slots))
        windows = Windows(batch.histories, self.config.length)
        for block in self.blocks:
            assert isinstance(block, Block)
            rows = block.packed(rows, windows, drop)
        scores: Tensor = (target * rows[:, None]).sum(dim=-1)
        return scores
