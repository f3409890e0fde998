"""eSASRec (Tikhonovich et al. 2025): SASRec with the blocks of LiGR (Borisyuk et al. 2025).

A block normalizes what it reads, and gates what it adds. A last normalization follows all blocks:

g(S)     = S + Dropout(Attention(LayerNorm(S)) ⊙ σ(S W₁ + b₁))
Block(S) = g + Dropout(FFN(LayerNorm(g)) ⊙ σ(g W₂ + b₂))

FFN(x) = (silu(x V₁) ⊙ x V₂) V₃ is SwiGLU (Shazeer 2020), without biases.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whence.errors import InputError
from whence.experts.linear import undrawn
from whence.models.blocks import AttentionBlock
from whence.models.registry import MODELS, ModelSpec, items_only
from whence.models.transformer import Transformer, TransformerConfig
from whence.randomness import DropoutFunction


@dataclass(frozen=True)
class ESASRecConfig(TransformerConfig):
    """The settings of every transformer, and the size of its feed-forward networks."""

    ff_factor: int = 4
    """The size of the hidden layer of a feed-forward network, as a multiple of dim."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ff_factor < 1:
            raise InputError(f"ff_factor must be at least 1, not {self.ff_factor}.")


class GatedBlock(AttentionBlock):
    """One block of LiGR."""

    def __init__(self, dim: int, heads: int, hidden: int, bias: bool = False) -> None:
        super().__init__(dim, heads, bias)
        self.attention_norm = nn.LayerNorm(dim)
        self.attention_gate = undrawn(dim, dim)  # W₁, b₁
        self.ffn_norm = nn.LayerNorm(dim)
        self.ffn_gate = undrawn(dim, dim)  # W₂, b₂
        self.switch = undrawn(dim, hidden, bias=False)  # V₁
        self.expand = undrawn(dim, hidden, bias=False)  # V₂
        self.contract = undrawn(hidden, dim, bias=False)  # V₃

    def read(self, rows: Tensor) -> Tensor:
        """Normalize the rows."""
        normal: Tensor = self.attention_norm(rows)
        return normal

    def after_attention(self, rows: Tensor, mixed: Tensor, drop: DropoutFunction) -> Tensor:
        """Add what attention found, and then what the feed-forward network finds, both gated."""
        g = drop(self.output(mixed) * self.attention_gate(rows).sigmoid(), onto=rows)
        return drop(self.ffn(self.ffn_norm(g)) * self.ffn_gate(g).sigmoid(), onto=g)

    def ffn(self, normal: Tensor) -> Tensor:
        """Return SwiGLU of normalized rows."""
        layers = torch.cat((self.switch.weight, self.expand.weight))  # one product is faster
        switch, hidden = F.linear(normal, layers).chunk(2, dim=-1)
        out: Tensor = self.contract(F.silu(switch) * hidden)
        return out


class ESASRec(Transformer):
    """The causal network of gated blocks."""

    causal = True
    config: ESASRecConfig

    def __init__(self, config: ESASRecConfig, item_count: int, generator: torch.Generator) -> None:
        super().__init__(config, item_count, generator)
        self.norm = nn.LayerNorm(config.dim)

    def new_block(self) -> GatedBlock:
        """Return a gated block."""
        config = self.config
        hidden = config.ff_factor * config.dim
        return GatedBlock(config.dim, config.n_heads, hidden, config.attention_bias)

    def after_blocks(self, rows: Tensor) -> Tensor:
        """Normalize the rows, whose lengths nothing limits before."""
        normal: Tensor = self.norm(rows)
        return normal


MODELS.add(
    "esasrec",
    ModelSpec(
        ESASRecConfig,
        items_only(ESASRec),
        follows_data=True,
        summary="SASRec whose blocks gate what they add.",
    ),
    place=15,
)
