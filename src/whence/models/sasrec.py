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
from whence.memory import MEMORY
from whence.models.base import Recommender
from whence.models.blocks import Block, columns_of_padding, initialise
from whence.models.coalition_scores import scores_of_coalitions
from whence.models.lookup import look_up, look_up_few
from whence.models.packed import Packed, Windows
from whence.randomness import Drop, keep


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
        initialise(self, generator)

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
        attention: Sequence[Tensor | None] | None = None,
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
            given = None if attention is None else attention[depth]
            weights = block.attention(rows, visible) if given is None else given
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
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """`h_n · e_i`. An absent item's column is masked in every block."""
        if present is not None and attention is not None:
            raise InputError("Parts cannot be removed from attention weights that are given.")
        if attention is None:
            # Whole columns of padding change nothing, and need not be computed.
            used = slice(columns_of_padding(batch), None)
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

    def score_coalitions(
        self, batch: Tensor, targets: Tensor, coalitions: Tensor, *, memory: int = MEMORY
    ) -> Tensor:
        """Coalitions that all cases share are computed with what they have in common."""
        if unused := columns_of_padding(batch):
            batch, coalitions = batch[:, unused:], coalitions[..., unused:]
        if coalitions.dim() == 3 or not bool(self.parts(batch).all()):
            return super().score_coalitions(batch, targets, coalitions, memory=memory)
        rows = self.embed(batch) + self.position[self.config.length - batch.shape[1] :]
        blocks = [block for block in self.blocks if isinstance(block, Block)]
        return scores_of_coalitions(
            blocks, rows, self.embed(targets), coalitions, causal=True, memory=memory
        )

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
