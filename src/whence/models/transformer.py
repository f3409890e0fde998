"""What transformers share: item and position embeddings, blocks above them, and losses.

Items `i_1 … i_n` become rows `S⁽⁰⁾ = e + p`. Blocks follow, and the last row `h` scores the item
`i` by `h · e_i`, with the same `e` as at the input. Padding is on the left, so the newest item
always has the same position.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whence.config import require_choice
from whence.contract import ATTENTION_COLUMN, MEMORY, PAD, All
from whence.errors import InputError
from whence.models.base import Recommender, padding_columns, refuse_removal_from_attention
from whence.models.blocks import AttentionBlock, Block, Windows
from whence.models.coalition_scores import scores_of_coalitions
from whence.models.lookup import look_up_batch, look_up_few
from whence.models.losses import LossName, check_loss, item_losses, mean_where, negatives_of
from whence.models.tasks import AnyBatch, Batch, NextItem, Packed
from whence.randomness import DropoutFunction, no_dropout

EmbeddingInit = Literal["normal", "xavier"]
LinearInit = Literal["xavier", "pytorch"]


@dataclass(frozen=True)
class TransformerConfig:
    """The sizes of the network; the defaults are those of Baumhauer (2021) for MovieLens."""

    max_len: int = 50
    """The longest history the model reads; older items are left out."""
    dim: int = 64
    """The size of an embedding."""
    n_blocks: int = 2
    """The number of self-attention blocks."""
    n_heads: int = 1
    """The number of attention heads; it must divide dim."""
    dropout: float = 0.2
    """The share of values that training sets to 0."""
    init_std: float = 0.02
    """The standard deviation of new embeddings."""
    embedding_init: EmbeddingInit = "normal"
    """How new embeddings are drawn: from a normal distribution with init_std (normal), or uniformly
    after Glorot and Bengio (2010) by the size of their table (xavier)."""
    linear_init: LinearInit = "xavier"
    """How new linear layers are drawn: after Glorot and Bengio (2010) with biases of 0 (xavier), or
    as PyTorch draws them (pytorch)."""
    attention_bias: bool = False
    """Whether the four linear layers of attention have biases."""
    loss: LossName = "softmax"
    """What a right item is compared with: all items (softmax), n_negatives random items
    (sampled-softmax, gbce), or one that the user has not seen (bce)."""
    n_negatives: int = 256
    """The number of random items in a step of sampled-softmax and gbce."""
    calibration: float = 0.75
    """The parameter t of gbce, from 0 to 1."""

    def __post_init__(self) -> None:
        if min(self.max_len, self.dim, self.n_blocks, self.n_heads) < 1:
            raise InputError("max_len, dim, n_blocks and n_heads must be at least 1.")
        if self.dim % self.n_heads:
            raise InputError(f"n_heads must divide dim; {self.n_heads} does not divide {self.dim}.")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout must be at least 0 and below 1, not {self.dropout}.")
        if not 0 < self.init_std < math.inf:
            raise InputError(f"init_std must be a number above 0, not {self.init_std}.")
        require_choice("embedding_init", self.embedding_init, EmbeddingInit)
        require_choice("linear_init", self.linear_init, LinearInit)
        check_loss(self)


def _draw_xavier(layer: nn.Linear, generator: torch.Generator) -> None:
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def _draw_as_pytorch(layer: nn.Linear, generator: torch.Generator) -> None:
    """Draw what `nn.Linear` does: weights and biases uniformly, up to 1/√in_features."""
    bound = 1 / math.sqrt(layer.in_features)
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    if layer.bias is not None:
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


DRAW_LAYER: Final[Mapping[LinearInit, Callable[[nn.Linear, torch.Generator], None]]] = {
    "xavier": _draw_xavier,
    "pytorch": _draw_as_pytorch,
}


class Transformer(Recommender):
    """The network. A batch is `[B, n']` item numbers with `PAD`, `n'` up to `max_len`."""

    removal = ATTENTION_COLUMN
    causal: ClassVar[bool]
    """Whether a row sees only itself and the rows before it, or all rows."""
    own_slots: ClassVar[int] = 0
    """The number of extra slots after those of the items."""

    def __init__(
        self, config: TransformerConfig, item_count: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.config: TransformerConfig = config
        self.task = NextItem(negatives_of(config))
        self.drops = 1 + 2 * config.n_blocks
        self.slots = config.max_len + self.own_slots
        self.item = nn.Parameter(torch.zeros(1 + item_count, config.dim))  # row 0 pads
        self.position = nn.Parameter(torch.zeros(self.slots, config.dim))
        self.blocks = nn.ModuleList(self.new_block() for _ in range(config.n_blocks))
        self._initialize(generator)

    def _initialize(self, generator: torch.Generator) -> None:
        """Draw embeddings and linear layers as the configuration says."""
        for table in (self.item.data[1:], self.position.data):
            self.draw_embeddings(table, len(table), generator)
        draw = DRAW_LAYER[self.config.linear_init]
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                draw(layer, generator)

    def draw_embeddings(self, rows: Tensor, table_rows: int, generator: torch.Generator) -> None:
        """Draw some rows `[r, d]` of a table with this number of rows."""
        if self.config.embedding_init == "xavier":
            bound = math.sqrt(6 / (table_rows + self.config.dim))
            nn.init.uniform_(rows, -bound, bound, generator=generator)
        else:
            nn.init.normal_(rows, std=self.config.init_std, generator=generator)

    def new_block(self) -> AttentionBlock:
        """Return a block whose weights are not drawn yet."""
        config = self.config
        return Block(config.dim, config.n_heads, config.attention_bias)

    def after_blocks(self, rows: Tensor) -> Tensor:
        """Return the rows that score items, given those after the last block."""
        return rows

    def parts(self, batch: Tensor) -> Tensor:
        """Return the slots with an item."""
        return batch != PAD

    def embed(self, batch: Tensor) -> Tensor:
        """Return `e`, without the positions; 0 at padding."""
        return F.embedding(batch + 1, self.item, padding_idx=0)

    def item_vectors(self) -> Tensor:
        """Return `e`, without the row that pads."""
        return self.item[1:]

    def with_own_slots(self, rows: Tensor) -> Tensor:
        """Append the extra slots to the rows `[B, n, d]`, before positions are added."""
        return rows

    def encode(
        self,
        batch: Tensor,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the rows `[B, n, d]` that score items and the attention weights of every block."""
        rows, real, visible = self._inputs(batch, present, embedded)
        used = []
        for depth, block in enumerate(self.blocks):
            assert isinstance(block, AttentionBlock)
            given = None if attention is None else attention[depth]
            weights = block.attention(rows, visible) if given is None else given
            rows = block(rows, weights, no_dropout) * real[..., None]
            used.append(weights)
        return self.after_blocks(rows) * real[..., None], used

    def _inputs(
        self, batch: Tensor, present: Tensor | None, embedded: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return `S⁽⁰⁾`, which of its rows are not padding, and what each of them may see."""
        self.require_length(batch)
        parts = self.parts(batch)
        column = parts if present is None else parts & present
        real, column = (F.pad(one, (0, self.own_slots), value=True) for one in (parts, column))
        slots = real.shape[1]
        visible = column[:, None, :] & real[:, :, None]
        if self.causal:
            visible &= torch.ones(slots, slots, dtype=torch.bool, device=batch.device).tril()
        rows = self.with_own_slots(self.embed(batch) if embedded is None else embedded)
        rows = (rows + self.position[self.slots - slots :]) * real[..., None]
        return rows, real, visible[:, None]  # M(S): [B, 1, n, n]

    def answers_alone(self, batch: Tensor, present: Tensor | None) -> Tensor:
        """Return what `answers` does, without the other rows of the last block.

        Products of other sizes are rounded in other ways, so one model keeps to `answers`.
        """
        rows, real, visible = self._inputs(batch, present, None)
        *others, last = self.blocks
        for block in others:
            assert isinstance(block, AttentionBlock)
            rows = block(rows, block.attention(rows, visible), no_dropout) * real[..., None]
        assert isinstance(last, AttentionBlock)
        answer = last.answer(rows, visible[:, :, -1])
        return (self.after_blocks(answer) * real[:, -1:, None])[:, 0]

    def answers_unmasked(self, batch: Tensor, lengths: Tensor | None) -> Tensor:
        """Return the same for histories of these lengths `[B]`, or without padding.

        In a causal network, padding after a history changes none of its rows. So only the last
        block needs a mask, and only for one row.
        """
        if lengths is None:
            rows = self.with_own_slots(self.embed(batch))
            rows = rows + self.position[self.slots - rows.shape[1] :]
            seen = newest = None
        else:
            assert self.causal, "rows that see all rows would see the padding"
            slot = torch.arange(batch.shape[1], device=batch.device)
            place = (slot + (batch.shape[1] - lengths)[:, None]).clamp(max=batch.shape[1] - 1)
            rows = self.embed(batch.gather(1, place))
            rows = rows + self.position[place + (self.slots - batch.shape[1])]
            seen, newest = (slot < lengths[:, None])[:, None], (lengths - 1).clamp(min=0)
        *others, last = self.blocks
        for block in others:
            assert isinstance(block, AttentionBlock)
            rows = block.unmasked(rows, self.causal)
        assert isinstance(last, AttentionBlock)
        answers = self.after_blocks(last.answer(rows, seen, newest))[:, 0]
        return answers if lengths is None else answers * (lengths > 0)[:, None]

    def score(
        self,
        batch: Tensor,
        targets: Tensor | All,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return `h · e_i`. An absent item's column is masked in every block."""
        answering = self.answers(batch, present=present, embedded=embedded, attention=attention)
        if isinstance(targets, All):
            return answering @ self.item[1:].T
        return (self.embed(targets) @ answering[:, :, None]).squeeze(-1)

    def answers(
        self,
        batch: Tensor,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return the rows h `[B, d]` that score the next item."""
        refuse_removal_from_attention(present, attention)
        if attention is None:
            # Columns of padding change nothing, so they need not be computed.
            used = slice(padding_columns(batch), None)
            batch = batch[:, used]
            present = None if present is None else present[:, used]
            embedded = None if embedded is None else embedded[:, used]
        return self.encode(batch, present=present, embedded=embedded, attention=attention)[0][:, -1]

    def attentions(self, batch: Tensor, targets: Tensor | None = None) -> list[Tensor]:
        """Return the weights of every block; they are the same for all targets."""
        return self.encode(batch)[1]

    def score_coalitions(
        self, batch: Tensor, targets: Tensor, coalitions: Tensor, *, memory: int = MEMORY
    ) -> Tensor:
        """Share work between coalitions if all cases have the same coalitions and no padding.

        That needs the block of SASRec.
        """
        if unused := padding_columns(batch):
            batch, coalitions = batch[:, unused:], coalitions[..., unused:]
        blocks = [block for block in self.blocks if isinstance(block, Block)]
        shared = coalitions.dim() == 2 and len(blocks) == len(self.blocks)
        if not shared or not bool(self.parts(batch).all()):
            return super().score_coalitions(batch, targets, coalitions, memory=memory)
        rows = self.with_own_slots(self.embed(batch))
        return scores_of_coalitions(
            blocks,
            rows + self.position[self.slots - rows.shape[1] :],
            self.embed(targets),
            coalitions,
            causal=self.causal,
            memory=memory,
        )

    def loss(self, batch: AnyBatch, drop: DropoutFunction) -> Tensor:
        """Return the mean loss of all questions."""
        assert isinstance(batch, Batch)
        found = look_up_batch(self.item, batch)
        rows = self.encode_packed(
            self.packed_inputs(found.inputs, batch.inputs, drop), batch.inputs, drop
        )
        if batch.rows is not None:
            rows = F.embedding(batch.rows, rows)
        losses = item_losses(rows, found, self.item, batch, self.config)
        return mean_where(batch.positives != PAD, batch.weigh(losses))

    def packed_inputs(self, embedded: Tensor, batch: Packed, drop: DropoutFunction) -> Tensor:
        """Return the rows `S⁽⁰⁾` `[T, d]` of packed histories, given their items' embeddings."""
        return drop(embedded + look_up_few(self.position, batch.slots))

    def encode_packed(self, rows: Tensor, batch: Packed, drop: DropoutFunction) -> Tensor:
        """Return the rows `[T, d]` of packed histories that score items, from `S⁽⁰⁾`."""
        windows = Windows(batch, self.slots, causal=self.causal)
        for block in self.blocks:
            assert isinstance(block, AttentionBlock)
            rows = block.packed(rows, windows, drop)
        return self.after_blocks(rows)
