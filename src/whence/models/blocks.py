"""Self-attention blocks, for padded histories and for the packed ones of training."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whence.experts.linear import undrawn
from whence.models.tasks import Packed
from whence.randomness import DropoutFunction, no_dropout

NOBODY = -2
"""The history number of absent rows and of the windows before the first and after the last."""
HIDDEN = -1e30
"""Added to a logit, it makes the attention weight exactly 0."""


class Windows:
    """The attention of packed histories: `K` windows of `n` rows, `T = K·n`.

    `n` is the length of the longest history. A history that ends in a window starts there or in the
    window before. So a window attends to itself and the one before it. Without causality, it also
    attends to the one after it. A mask separates histories.
    """

    def __init__(self, batch: Packed, max_len: int, *, causal: bool) -> None:
        own = batch.histories.view(-1, max_len)
        self.count, self.max_len = own.shape
        self.reach = (-1, 0) if causal else (-1, 0, 1)
        """The windows that a window attends to, relative to itself."""
        seen = own
        if batch.present is not None:
            seen = torch.where(batch.present.view(own.shape), own, NOBODY)
        nothing = torch.full_like(own[:1], NOBODY)  # before the first, after the last
        around = torch.cat((nothing, seen, nothing))
        key = torch.cat([around[1 + to : 1 + to + self.count] for to in self.reach], dim=1)
        visible = own[:, :, None] == key[:, None, :]
        if causal:
            place = torch.arange(2 * max_len, device=own.device) - max_len
            visible = visible & (place <= torch.arange(max_len, device=own.device)[:, None])
        self.bias = torch.where(visible, 0.0, HIDDEN)
        """`[K, n, k·n]`: 0 at the rows of the same history, if causal up to the row itself."""
        self.blind = None if batch.present is None else ~visible.any(dim=-1).view(-1, 1)
        """`[T, 1]`: the rows that see nothing; there can be some only if items are absent."""

    def attend(self, projected: Tensor, heads: int) -> Tensor:
        """Return `[T, d]`, softmax(QKᵀ/√(d/h))·V of every head, from `[T, 3d]` Q, K and V."""
        dim = projected.shape[-1] // 3
        windows = projected.view(self.count, self.max_len, 3 * dim)
        query, own = windows.split((dim, 2 * dim), dim=-1)
        # Rolling puts the last window before the first; the mask hides them from each other.
        around = [own if to == 0 else own.roll(-to, 0) for to in self.reach]
        key, value = torch.cat(around, dim=1).chunk(2, dim=-1)
        query, key, value = (self._heads(rows, heads) for rows in (query, key, value))
        bias = self.bias.to(query.dtype)
        if heads > 1:
            bias = bias.repeat_interleave(heads, 0)
        scale = query.shape[-1] ** -0.5
        weights = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=scale).softmax(dim=-1)
        mixed = (weights @ value).view(self.count, heads, self.max_len, -1)
        mixed = mixed.transpose(1, 2).reshape(self.count * self.max_len, dim)
        return mixed if self.blind is None else mixed.masked_fill(self.blind, 0)

    def _heads(self, rows: Tensor, heads: int) -> Tensor:
        """`[K, m, d]` to `[K·h, m, d/h]`."""
        if heads == 1:
            return rows
        windows, slots, dim = rows.shape
        apart = rows.view(windows, slots, heads, dim // heads).transpose(1, 2)
        return apart.reshape(windows * heads, slots, -1)


class AttentionBlock(nn.Module):
    """Self-attention of several heads. A subclass says what it reads and what follows it."""

    def __init__(self, dim: int, heads: int, bias: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.query = undrawn(dim, dim, bias)  # W^Q of all heads, next to each other
        self.key = undrawn(dim, dim, bias)
        self.value = undrawn(dim, dim, bias)
        self.output = undrawn(dim, dim, bias)  # W^O

    def read(self, rows: Tensor) -> Tensor:
        """Return what attention is computed from: the rows themselves, if nothing else is said."""
        return rows

    def after_attention(self, rows: Tensor, mixed: Tensor, drop: DropoutFunction) -> Tensor:
        """Return the block's output from its input rows and what the heads saw, `[…, d]` each."""
        raise NotImplementedError

    def attention(self, rows: Tensor, visible: Tensor) -> Tensor:
        """Return `[B, h, n, n]`: softmax(QKᵀ/√(d/h)) over the visible columns.

        The weights of a row that sees nothing are all 0.
        """
        logits = self.logits(self.read(rows))
        logits = logits.masked_fill(~visible, torch.finfo(logits.dtype).min)
        weights: Tensor = logits.softmax(dim=-1) * visible
        return weights

    def logits(self, read: Tensor) -> Tensor:
        """Return `[B, h, n, n]`: QKᵀ/√(d/h)."""
        query, key = self._heads(self.query(read)), self._heads(self.key(read))
        logits: Tensor = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        return logits

    def answer(self, rows: Tensor, visible: Tensor | None, last: Tensor | None = None) -> Tensor:
        """Return `[B, 1, d]`: one of the block's output rows, without computing the others.

        It is the row `last` `[B]`, by default the last one. `visible` `[B, 1, n]` are the columns
        that it sees, by default all. A logit q·W^K r is (W^Kᵀ q)·r, and the values are mixed before
        W^V, so neither keys nor values of the other rows are computed. The bias of the keys adds
        the same to all logits, which changes nothing.
        """
        read = self.read(rows)
        own, own_read = (_row(one, last) for one in (rows, read))
        query = self.query(own_read).view(len(rows), self.heads, -1)
        key, value = (
            one.weight.view(self.heads, -1, rows.shape[-1]) for one in (self.key, self.value)
        )
        logits = torch.einsum("bhe,hed->bhd", query, key) @ read.transpose(1, 2)
        logits = logits / query.shape[-1] ** 0.5
        if visible is None:
            weights = logits.softmax(dim=-1)
        else:
            hidden = logits.masked_fill(~visible, torch.finfo(logits.dtype).min)
            weights = hidden.softmax(dim=-1) * visible
        mixed = torch.einsum("bhd,hed->bhe", weights @ read, value)
        if self.value.bias is not None:
            # The weights sum to 1, or to 0 in a row that sees nothing.
            mixed = mixed + weights.sum(-1, keepdim=True) * self.value.bias.view(self.heads, -1)
        return self.after_attention(own, mixed.reshape(len(rows), 1, -1), no_dropout)

    def unmasked(self, rows: Tensor, causal: bool) -> Tensor:
        """Return the block's output if every row sees all rows, or all up to itself."""
        read = self.read(rows)
        query, key, value = (self._heads(one(read)) for one in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return self.after_attention(rows, mixed.transpose(1, 2).flatten(2), no_dropout)

    def forward(self, rows: Tensor, weights: Tensor, drop: DropoutFunction) -> Tensor:
        """Return the block's output rows for the given attention weights."""
        mixed = weights @ self._heads(self.value(self.read(rows)))
        return self.after_attention(rows, mixed.transpose(1, 2).flatten(2), drop)

    def packed(self, rows: Tensor, windows: Windows, drop: DropoutFunction) -> Tensor:
        """Return the block's output for the rows `[T, d]` of packed histories."""
        layers = (self.query, self.key, self.value)
        projections = torch.cat([one.weight for one in layers])
        biases = torch.cat([one.bias for one in layers]) if self.query.bias is not None else None
        projected = F.linear(self.read(rows), projections, biases)
        return self.after_attention(rows, windows.attend(projected, self.heads), drop)

    def _heads(self, rows: Tensor) -> Tensor:
        """`[B, n, d]` to `[B, h, n, d/h]`."""
        batch, slots, dim = rows.shape
        return rows.view(batch, slots, self.heads, dim // self.heads).transpose(1, 2)


def _row(rows: Tensor, place: Tensor | None) -> Tensor:
    """Return `[B, 1, d]`: one row of each case, by default the last one."""
    if place is None:
        return rows[:, -1:]
    return rows.gather(1, place[:, None, None].expand(-1, 1, rows.shape[2]))


class Block(AttentionBlock):
    """The block of SASRec and BERT4Rec, as Baumhauer (2021) prints it.

    g(S)     = Dropout(Attention(S, S, S)) + S
    Block(S) = LayerNorm(Dropout(FFN(LayerNorm(g(S)))) + g(S))
    """

    def __init__(self, dim: int, heads: int, bias: bool = False) -> None:
        super().__init__(dim, heads, bias)
        self.inner_norm = nn.LayerNorm(dim)
        self.expand = undrawn(dim, dim)  # W_1, b_1
        self.contract = undrawn(dim, dim)  # W_2, b_2
        self.outer_norm = nn.LayerNorm(dim)

    def after_attention(self, rows: Tensor, mixed: Tensor, drop: DropoutFunction) -> Tensor:
        """Return the block's output: the feed-forward network of g."""
        return self.feed_forward(drop(self.output(mixed), onto=rows), drop)

    def feed_forward(self, g: Tensor, drop: DropoutFunction = no_dropout) -> Tensor:
        """Return LayerNorm(Dropout(FFN(LayerNorm(g))) + g)."""
        out: Tensor = self.outer_norm(drop(self.ffn(g), onto=g))
        return out

    def ffn(self, g: Tensor) -> Tensor:
        """Return FFN(LayerNorm(g))."""
        inner = self.expand(self.inner_norm(g))
        out: Tensor = self.contract(F.leaky_relu(inner, inplace=not torch.is_grad_enabled()))
        return out
