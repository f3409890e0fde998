"""DeepICF and DeepICF+a (Xue et al. 2019): a pooled history times the target, through layers.

    DeepICF      e = n^−α Σ_j p_j
    DeepICF+a    e = Σ_j a_j p_j,   a_j = exp(hᵀ ReLU(W (p_j ⊙ q) + b)) / (Σ_k exp(…))^β

`e ⊙ q` goes through layers of batch normalization and rectifiers to one output, or to one per
class, as in Jain (2019). With β below 1 the weights of a long history sum to more than 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from whence.contract import MEMORY
from whence.errors import InputError
from whence.experts.linear import undrawn
from whence.memory import row_slices
from whence.models.base import Recommender
from whence.models.fism import (
    ItemBased,
    ItemBasedConfig,
    sum_of_squares,
    summed,
    truncated_normal,
)
from whence.models.losses import OUTPUTS, liked_logit
from whence.models.pooling import AttentionNetwork, Tiled, attended
from whence.models.registry import MODELS, USER_TRAINING, ModelSpec, items_only

STATISTICS_MOMENTUM = 0.9
SMALLEST_VARIANCE = 1e-3
"""Added to every variance, as in the library that the authors used."""


@dataclass(frozen=True)
class LayeredConfig(ItemBasedConfig):
    """What both models have, with the defaults of Xue et al. (2019)."""

    hidden_dims: tuple[int, ...] = (64, 32, 16)
    """The sizes of the layers, first to last."""
    n_classes: int = 1
    """1 for a probability, 2 for liked or no interaction, 3 for disliked too, which needs ratings.
    """
    dislike_threshold: float = 2.0
    """The highest rating that means disliked, with three classes."""
    class_balanced: bool = False
    """Whether the loss weighs a class by one over its share in the batch (Jain 2019)."""
    embedding_decay: float = 1e-6
    """The weight of the squared vectors in the loss, and of those of the attention network."""
    layer_decay: float = 0.1
    """The weight of the squared weights of the layers in the loss."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_classes not in OUTPUTS:
            raise InputError(f"n_classes must be 1, 2 or 3, not {self.n_classes}.")
        if not self.hidden_dims or min(self.hidden_dims) < 1:
            raise InputError("hidden_dims must have one or more sizes of at least 1.")


@dataclass(frozen=True)
class DeepICFConfig(LayeredConfig):
    """The settings of the model without attention."""

    alpha: float = 0.5
    """How much a longer history counts for less: 0 takes the sum of its items, 1 the mean."""


@dataclass(frozen=True)
class AttentiveDeepICFConfig(LayeredConfig):
    """The settings of DeepICF+a, with the defaults of Xue et al. (2019)."""

    attention_dim: int = 16
    """The size of the attention network."""
    beta: float = 0.8
    """How much a longer history counts for less: with 1 the attention weights sum to 1."""
    layer_decay: float = 10.0
    """The weight of the squared weights of the layers in the loss; batch normalization undoes it.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.attention_dim < 1 or not 0 <= self.beta <= 1:
            raise InputError("attention_dim must be at least 1, and beta from 0 to 1.")


class Layered(ItemBased):
    """The layers of both models; subclasses pool a history."""

    config: LayeredConfig

    def __init__(self, config: LayeredConfig, item_count: int, generator: torch.Generator) -> None:
        disliked = config.dislike_threshold if config.n_classes == max(OUTPUTS) else None
        super().__init__(config, item_count, generator, config.n_classes, disliked)
        self.balanced = config.class_balanced
        sizes = (config.dim, *config.hidden_dims)
        self.layers = nn.ModuleList(
            _layer(into, out, math.sqrt(2 / (into + out)), generator)
            for into, out in pairwise(sizes)
        )
        self.norms = nn.ModuleList(
            MaskedBatchNorm(size, SMALLEST_VARIANCE, 1 - STATISTICS_MOMENTUM)
            for size in config.hidden_dims
        )
        self.last = _layer(sizes[-1], config.n_classes, math.sqrt(2 / (sizes[-1] + 1)), generator)

    def outputs(self, user: Tensor, q: Tensor, real: Tensor | None = None) -> Tensor:
        """Return the outputs of the layers, in training normalized over the batch."""
        # In half precision a bias would swallow e ⊙ q, and a norm would blow up what is left of it.
        with torch.autocast(user.device.type, enabled=False):
            rows = (user * q).flatten(0, -2).to(self.last.weight.dtype)
            counted = None if real is None else RealRows.from_mask(real.flatten(), rows.dtype)
            for layer, norm in zip(self.layers, self.norms, strict=True):
                rows = norm(layer(rows), counted).relu()
            found: Tensor = self.last(rows)
        return found.view(*user.shape[:-1], self.config.n_classes)

    def penalty(self) -> Tensor:
        """Return λ (Σ p² + Σ q²), and the penalty of the layers."""
        of_layers = sum_of_squares(*(layer.weight for layer in self.layers))  # type: ignore[arg-type]
        found = self.config.layer_decay * of_layers
        if not self.config.embedding_decay:
            return found
        return found + self.config.embedding_decay * sum_of_squares(*self._vectors())

    def _vectors(self) -> list[Tensor]:
        """Return the weights that `embedding_decay` applies to."""
        return [self.history, self.target]

    @torch.no_grad()
    def init_from(self, trained: Mapping[str, Recommender]) -> None:
        """Copy the vectors and the bias of a FISM."""
        fism = trained["fism"]
        assert isinstance(fism, ItemBased)
        for own, other in ((self.history, fism.history), (self.target, fism.target)):
            if own.shape != other.shape:
                raise InputError(
                    f"The vectors of FISM are {list(other.shape)}, and those of DeepICF "
                    f"{list(own.shape)}. Train both with the same dim on the same data."
                )
            own.copy_(other)
        self.bias.zero_()
        self.bias[:, 0] = fism.bias[:, 0]


class DeepICF(Layered):
    """The model without attention."""

    config: DeepICFConfig

    def pool(self, p: Tensor, q: Tensor, tiled: Tiled) -> Tensor:
        """Return n^−α Σ p_j."""
        return summed(p, tiled, self.config.alpha)


class AttentiveDeepICF(Layered):
    """DeepICF+a, whose attention depends on the target."""

    config: AttentiveDeepICFConfig

    def __init__(
        self, config: AttentiveDeepICFConfig, item_count: int, generator: torch.Generator
    ) -> None:
        super().__init__(config, item_count, generator)
        std = math.sqrt(2 / (config.dim + config.attention_dim))
        self.look = nn.Parameter(torch.empty(config.attention_dim, config.dim))
        self.look_bias = nn.Parameter(torch.empty(config.attention_dim))
        self.look_out = nn.Parameter(torch.ones(config.attention_dim))
        for values in (self.look.data, self.look_bias.data):
            truncated_normal(values, std, generator)

    def pool(self, p: Tensor, q: Tensor, tiled: Tiled) -> Tensor:
        """Return Σ a_j p_j."""
        network = AttentionNetwork(self.look, self.look_bias, self.look_out)
        total, pooled = attended(p, q, network, tiled)
        return pooled * self._smoothed(total)[..., None]

    def _smoothed(self, total: Tensor) -> Tensor:
        """Return (Σ e_j)^−β, and 1 if the sum is 0 because no item is there."""
        return (total + (total == 0)) ** -self.config.beta

    def pool_with(self, attention: Tensor, p: Tensor) -> Tensor:
        """Return Σ a_j p_j with the given a_j."""
        return attention @ p

    def attentions(self, batch: Tensor, targets: Tensor) -> list[Tensor]:
        """Return `[B, 1, 1, n]`: the weights a_j for one target per case."""
        e, _ = self._unsmoothed(batch, targets)
        return [(e * self._smoothed(e.sum(dim=1, keepdim=True)))[:, None, None]]

    def _unsmoothed(self, batch: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights `e` `[B, n]` before smoothing for one target per case, and `p`."""
        p, seen = self._read(batch, None, None)
        q = self.target[targets + 1]
        hidden = torch.relu((p * q[:, None]) @ self.look.T + self.look_bias)
        return torch.exp(hidden @ self.look_out) * seen, p

    def _vectors(self) -> list[Tensor]:
        return [*super()._vectors(), self.look]

    def score_coalitions(
        self, batch: Tensor, targets: Tensor, coalitions: Tensor, *, memory: int = MEMORY
    ) -> Tensor:
        """Compute `e` once for all coalitions; it does not depend on the other items."""
        e, p = self._unsmoothed(batch, targets)
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


def _layer(into: int, out: int, std: float, generator: torch.Generator) -> nn.Linear:
    """Return a layer with normal weights of that deviation, and biases of deviation 1."""
    layer = undrawn(into, out)
    nn.init.normal_(layer.weight, std=std, generator=generator)
    nn.init.normal_(layer.bias, generator=generator)
    return layer


class RealRows(NamedTuple):
    """The rows of a batch that are not padding, in the form that statistics need."""

    share: Tensor
    """`[T]`: r, the share of each row in a mean; 0 for padding."""
    correction: Tensor
    """n / (n − 1), from the variance of these rows to the unbiased estimate."""

    @classmethod
    def from_mask(cls, real: Tensor, dtype: torch.dtype) -> RealRows:
        """Compute both from a mask `[T]`, once for all layers."""
        count = real.sum().clamp(min=1).to(dtype)
        return cls(real / count, count / (count - 1).clamp(min=1))


class MaskedBatchNorm(nn.BatchNorm1d):
    """Batch normalization whose statistics ignore padding; padding is normalized with them."""

    def forward(self, rows: Tensor, real: RealRows | None = None) -> Tensor:
        """Normalize rows `[T, d]`; outside training with the running statistics."""
        assert self.running_mean is not None
        assert self.running_var is not None
        if not self.training or real is None:
            normal = (rows - self.running_mean) * (self.running_var + self.eps).rsqrt()
            return torch.addcmul(self.bias, normal, self.weight)
        with torch.autocast(rows.device.type, enabled=False):  # statistics need all digits
            found = _Normalize.apply(  # type: ignore[no-untyped-call]
                rows.to(self.weight.dtype), real.share, self.weight, self.bias, self.eps
            )
        out: Tensor = found[0]
        self._update(found[1], found[2], real.correction)
        return out

    def _update(self, mean: Tensor, variance: Tensor, correction: Tensor) -> None:
        """Update in place and without reading a value: a GPU records training steps."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        statistics = ((self.running_mean, mean), (self.running_var, variance * correction))
        for running, new in statistics:
            if self.momentum is None:
                running.add_((new - running) / self.num_batches_tracked)
            else:  # `lerp_` would be one kernel fewer, but `vmap` does not support it
                running.mul_(1 - self.momentum).add_(new, alpha=self.momentum)


class _Normalize(torch.autograd.Function):
    """x̂ = (x − μ) / √(σ² + ε), scaled and shifted, with a gradient of few kernels.

    With μ = Σ rᵢ xᵢ and σ² = Σ rᵢ (xᵢ − μ)², the gradient of x is
    w / √(σ² + ε) · (g − r (Σ g + x̂ Σ g x̂)).
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        rows: Tensor, share: Tensor, weight: Tensor, bias: Tensor, eps: float
    ) -> tuple[Tensor, ...]:
        """Return the rows, their mean and variance, and for the gradient x̂ and 1 / √(σ² + ε)."""
        mean = share @ rows
        centred = rows - mean
        variance = share @ centred.square()
        inverse = (variance + eps).rsqrt()
        normal = centred * inverse
        return torch.addcmul(bias, normal, weight), mean, variance, normal, inverse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401
        """Keep what the gradient needs; the statistics have none."""
        _rows, share, weight, _bias, _eps = inputs
        _, *statistics, normal, inverse = output
        ctx.save_for_backward(share, weight, normal, inverse)
        ctx.mark_non_differentiable(*statistics, normal, inverse)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, of_out: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Return the gradients of rows, weight and bias."""
        share, weight, normal, inverse = ctx.saved_tensors
        of_bias, of_weight = of_out.sum(dim=0), (of_out * normal).sum(dim=0)
        pulled = torch.addcmul(of_bias, normal, of_weight) * share[:, None]
        return (weight * inverse) * (of_out - pulled), None, of_weight, of_bias, None


MODELS.add(
    "deepicf",
    ModelSpec(
        DeepICFConfig,
        items_only(DeepICF),
        summary="FISM with layers above the pooled item pairs.",
        training=USER_TRAINING,
        init_from=("fism",),
    ),
    place=90,
)
MODELS.add(
    "deepicf-a",
    ModelSpec(
        AttentiveDeepICFConfig,
        items_only(AttentiveDeepICF),
        summary="DeepICF whose pooling is attention.",
        training=USER_TRAINING,
        init_from=("fism",),
    ),
    aliases=("deepicf+a",),
    place=100,
)
