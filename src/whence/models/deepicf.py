"""DeepICF and DeepICF+a (Xue et al. 2019): what was chosen, against the target, through layers.

    DeepICF      e = n^−α Σ_j p_j
    DeepICF+a    e = Σ_j a_j p_j,   a_j = exp(hᵀ ReLU(W (p_j ⊙ q) + b)) / (Σ_k exp(…))^β

and `e ⊙ q` goes through layers of batch normalisation and rectifiers to one output, or to one for
each class, as Jain (2019) has it. With β below 1 the weights of a long history sum to more than 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from whence.errors import InputError
from whence.memory import MEMORY, row_slices
from whence.models.base import Recommender
from whence.models.batch_norm import Real, RealBatchNorm
from whence.models.item_based import (
    ItemBased,
    ItemBasedConfig,
    sum_of_squares,
    summed,
    truncated_normal,
)
from whence.models.outcomes import OUTPUTS, liked_logit
from whence.models.pooling import Look, Tiled, attended

KEPT_OF_STATISTICS = 0.9
SMALLEST_VARIANCE = 1e-3
"""Added to every variance, as the network's first library has it."""


@dataclass(frozen=True)
class LayeredConfig(ItemBasedConfig):
    """What both have, with the defaults of Xue et al. (2019)."""

    hidden_dims: tuple[int, ...] = (64, 32, 16)
    """The widths of the layers, the first one first."""
    n_classes: int = 1
    """1 output for a sigmoid; 2 for liked or nothing; 3 also for disliked, which needs ratings."""
    dislike_threshold: float = 2.0
    """The highest rating that says so, with three classes."""
    class_balanced: bool = False
    """Whether a rare class weighs more: by one over its share in the batch (Jain 2019)."""
    embedding_decay: float = 1e-6
    """What the square of every vector costs, and of W."""
    layer_decay: float = 0.1
    """What the square of every weight of a layer costs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_classes not in OUTPUTS:
            raise InputError(f"classes is 1, 2 or 3, not {self.n_classes}.")
        if not self.hidden_dims or min(self.hidden_dims) < 1:
            raise InputError("layers are the widths of one or more layers, from 1 on.")


@dataclass(frozen=True)
class DeepICFConfig(LayeredConfig):
    """Without attention."""

    alpha: float = 0.5
    """How much a longer history counts for less."""


@dataclass(frozen=True)
class AttentiveDeepICFConfig(LayeredConfig):
    """With the defaults of Xue et al. (2019) for DeepICF+a."""

    attention_dim: int = 16
    """The size of the attention network, a."""
    beta: float = 0.8
    """β, how much a longer history counts for less: at 1 the weights sum to 1."""
    layer_decay: float = 10.0
    """What the square of every weight of a layer costs; batch normalisation undoes it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.attention_dim < 1 or not 0 <= self.beta <= 1:
            raise InputError("attention is a width from 1 on, and beta from 0 to 1.")


class Layered(ItemBased):
    """The layers that both have; how a history is pooled is their own."""

    config: LayeredConfig

    def __init__(self, config: LayeredConfig, item_count: int, generator: torch.Generator) -> None:
        disliked = config.dislike_threshold if config.n_classes == max(OUTPUTS) else None
        super().__init__(config, item_count, generator, config.n_classes, disliked)
        self.balanced = config.class_balanced
        widths = (config.dim, *config.hidden_dims)
        self.layers = nn.ModuleList(
            _layer(into, out, math.sqrt(2 / (into + out)), generator)
            for into, out in pairwise(widths)
        )
        self.norms = nn.ModuleList(
            RealBatchNorm(width, SMALLEST_VARIANCE, 1 - KEPT_OF_STATISTICS)
            for width in config.hidden_dims
        )
        spread = math.sqrt(2 / (widths[-1] + 1))
        self.last = _layer(widths[-1], config.n_classes, spread, generator)

    def outputs(self, user: Tensor, q: Tensor, real: Tensor | None = None) -> Tensor:
        """Through the layers; their statistics are those of a batch in training."""
        # In half precision a bias would swallow e ⊙ q, and a norm would blow up what is left of it.
        with torch.autocast(user.device.type, enabled=False):
            rows = (user * q).flatten(0, -2).to(self.last.weight.dtype)
            counted = None if real is None else Real.of(real.flatten(), rows.dtype)
            for layer, norm in zip(self.layers, self.norms, strict=True):
                rows = norm(layer(rows), counted).relu()
            found: Tensor = self.last(rows)
        return found.view(*user.shape[:-1], self.config.n_classes)

    def penalty(self) -> Tensor:
        """λ (Σ p² + Σ q²), and that of the layers."""
        of_layers = sum_of_squares(*(layer.weight for layer in self.layers))  # type: ignore[arg-type]
        found = self.config.layer_decay * of_layers
        if not self.config.embedding_decay:
            return found
        return found + self.config.embedding_decay * sum_of_squares(*self._vectors())

    def _vectors(self) -> list[Tensor]:
        """Whose squares cost λ."""
        return [self.history, self.target]

    @torch.no_grad()
    def init_from(self, trained: Mapping[str, Recommender]) -> None:
        """Begin with the vectors and the bias of a FISM."""
        fism = trained["fism"]
        assert isinstance(fism, ItemBased)
        for own, other in ((self.history, fism.history), (self.target, fism.target)):
            if own.shape != other.shape:
                raise InputError(
                    f"FISM's vectors are {list(other.shape)}, and DeepICF's {list(own.shape)}; "
                    "train both with the same width on the same data."
                )
            own.copy_(other)
        self.bias.zero_()
        self.bias[:, 0] = fism.bias[:, 0]


class DeepICF(Layered):
    """The model without attention."""

    config: DeepICFConfig

    def pool(self, p: Tensor, q: Tensor, tiled: Tiled) -> Tensor:
        """n^−α Σ p_j."""
        return summed(p, tiled, self.config.alpha)


class AttentiveDeepICF(Layered):
    """DeepICF+a, which looks at a history with the target in mind."""

    config: AttentiveDeepICFConfig

    def __init__(
        self, config: AttentiveDeepICFConfig, item_count: int, generator: torch.Generator
    ) -> None:
        super().__init__(config, item_count, generator)
        spread = math.sqrt(2 / (config.dim + config.attention_dim))
        self.look = nn.Parameter(torch.empty(config.attention_dim, config.dim))
        self.look_bias = nn.Parameter(torch.empty(config.attention_dim))
        self.look_out = nn.Parameter(torch.ones(config.attention_dim))
        for values in (self.look.data, self.look_bias.data):
            truncated_normal(values, spread, generator)

    def pool(self, p: Tensor, q: Tensor, tiled: Tiled) -> Tensor:
        """Σ a_j p_j."""
        total, pooled = attended(p, q, Look(self.look, self.look_bias, self.look_out), tiled)
        return pooled * self._smoothed(total)[..., None]

    def _smoothed(self, total: Tensor) -> Tensor:
        """(Σ e_j)^−β; and 1 where nothing is looked at, and weights of 0 stay 0."""
        return (total + (total == 0)) ** -self.config.beta

    def pool_with(self, attention: Tensor, p: Tensor) -> Tensor:
        """Σ a_j p_j, with other a_j than its own."""
        return attention @ p

    def attentions(self, batch: Tensor, targets: Tensor) -> list[Tensor]:
        """`[B, 1, 1, n]`: how much it looks at each item for one target a case."""
        e, _ = self._looked(batch, targets)
        return [(e * self._smoothed(e.sum(dim=1, keepdim=True)))[:, None, None]]

    def _looked(self, batch: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """`e` `[B, n]` of one target a case, and `p`."""
        p, seen = self._read(batch, None, None)
        q = self.target[targets + 1]
        hidden = torch.relu((p * q[:, None]) @ self.look.T + self.look_bias)
        return torch.exp(hidden @ self.look_out) * seen, p

    def _vectors(self) -> list[Tensor]:
        """And those of W."""
        return [*super()._vectors(), self.look]

    def score_coalitions(
        self, batch: Tensor, targets: Tensor, coalitions: Tensor, *, memory: int = MEMORY
    ) -> Tensor:
        """`e` does not depend on who else is there, and so is computed once for all coalitions."""
        e, p = self._looked(batch, targets)
        weighed = torch.cat((e[..., None], e[..., None] * p), dim=2)  # [B, n, 1 + d]
        q, bias = self.target[targets + 1][:, None], self.bias[targets + 1][:, None]
        coalitions = coalitions.expand(len(batch), *coalitions.shape[-2:])
        each = batch.shape[1] + sum(self.config.hidden_dims) + 4 * self.config.dim
        at_once = max(1, memory // (4 * max(1, len(batch)) * each))
        found = []
        for some in row_slices(coalitions.shape[1], at_once):
            total, pooled = (coalitions[:, some].to(p.dtype) @ weighed).split(
                (1, p.shape[2]), dim=2
            )
            user = pooled * self._smoothed(total)
            found.append(liked_logit(self.outputs(user, q.expand_as(user)) + bias))
        return torch.cat(found, dim=1) if found else p.new_zeros(len(batch), 0)


def _layer(into: int, out: int, spread: float, generator: torch.Generator) -> nn.Linear:
    """Normal weights of that spread, and biases of spread 1."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, into, out)
    nn.init.normal_(layer.weight, std=spread, generator=generator)
    nn.init.normal_(layer.bias, generator=generator)
    return layer
