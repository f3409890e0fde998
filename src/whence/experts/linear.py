"""Linear layers over experts: expert i reads its own features and those of experts it contains.

h_i ← W_ii h_i + Σ_{j ∈ ω(i)} W_ij [h_j] + b_i, where the brackets are detached (equation 14 and the
paragraph below it in Afchar & Hennequin 2020). The blocks W_ij themselves are trained.

Features of `H` experts are `[H, w, R]`: `w` features each for `R` rows, which are cases or their
steps. To explain a trained network, pass `detach=False`, which keeps the whole gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, cast

import torch
from torch import Tensor, nn

from whence.errors import InputError
from whence.experts.family import Family
from whence.experts.fused import Gather, GatheredLinear, fused_layers

TrainedBy = Literal["all", "smallest"]


class InputLinear(nn.Module):
    """The first layer: `[R, columns]` to `[H, outputs, R]`, each expert from its own columns.

    Columns that are trained themselves, such as embeddings, are trained by the smallest experts
    that see them. The other experts read them detached, so that no expert learns from one that
    contains it. The published code trains them by "all". `columns` overrides the family's columns
    for rows with another layout.
    """

    def __init__(
        self,
        family: Family,
        out_features: int,
        generator: torch.Generator,
        *,
        bias: bool = True,
        trained_by: TrainedBy = "smallest",
        columns: Sequence[Sequence[int]] | None = None,
    ) -> None:
        super().__init__()
        seen = family.columns if columns is None else columns
        for name, some in zip(family.names, seen, strict=True):
            if not some:
                raise InputError(
                    f"The expert '{name}' sees no column of these rows. Give it one, or leave the "
                    "expert out."
                )
        self.n_columns = 1 + max(map(max, seen))
        self.gather = Gather(seen)
        detached = _detached_columns(seen, family.contained, self.n_columns)
        self.gather_detached = Gather(detached) if trained_by == "smallest" else None
        self.weights = nn.ParameterList(
            _glorot(
                torch.full((bucket.count,), bucket.n_blocks),
                out_features,
                bucket.n_blocks,
                generator,
            )
            for bucket in self.gather.buckets
        )
        self.bias = nn.Parameter(torch.zeros(len(family), out_features, 1)) if bias else None

    def forward(self, inputs: Tensor, detach: bool = True) -> Tensor:
        """Return each expert's features of its own columns."""
        return fused_layers(*self.layer(inputs, detach))

    def layer(self, inputs: Tensor, detach: bool = True) -> tuple[Tensor, GatheredLinear]:
        """Return the columns as blocks, and the layer to apply to them."""
        gather, inputs = self.gather, first_columns(inputs, self.n_columns)
        # Inside `torch.vmap` requires_grad cannot be read, so assume that the rows are trained.
        trained = inputs.requires_grad or torch._C._are_functorch_transforms_active()
        if self.gather_detached is not None and detach and trained and torch.is_grad_enabled():
            gather, inputs = self.gather_detached, torch.cat((inputs, inputs.detach()), dim=1)
        blocks = inputs.T.contiguous()[:, None]  # makes each column contiguous
        return blocks, GatheredLinear(gather, False, None, self.bias, _tensors(self.weights))


def first_columns(rows: Tensor, n_columns: int) -> Tensor:
    """Return the columns that a family names, `[R, n_columns]`; rows may have more."""
    check_columns(rows, n_columns)
    if not rows.is_floating_point():
        raise InputError(
            f"Rows must hold floating-point numbers, not {rows.dtype}. Convert them with "
            "rows.float()."
        )
    return rows[:, :n_columns]


def check_columns(rows: Tensor, n_columns: int) -> None:
    """Raise unless rows are a matrix with every column that the family names."""
    if rows.ndim != 2:
        raise InputError(
            f"Rows must have the shape [rows, columns], not {list(rows.shape)}. Pass a single row "
            "as row[None]."
        )
    if rows.shape[1] < n_columns:
        raise InputError(
            f"The family names columns 0 to {n_columns - 1}, but the rows have only "
            f"{rows.shape[1]}."
        )


def _detached_columns(
    seen: Sequence[Sequence[int]], contained: Sequence[Sequence[int]], n_columns: int
) -> list[list[int]]:
    """Return each expert's columns, those it does not train in the copy after all columns."""
    columns: list[list[int]] = []
    for own, inside in zip(seen, contained, strict=True):
        trained_below = {column for other in inside for column in seen[other]}
        columns.append([column + (n_columns if column in trained_below else 0) for column in own])
    return columns


class LinkedLinear(nn.Module):
    """`[H, in_features, R]` to `[H, out_features, R]`, optionally linked to contained experts."""

    def __init__(
        self,
        family: Family,
        in_features: int,
        out_features: int,
        generator: torch.Generator,
        *,
        bias: bool = True,
        linked: bool = True,
    ) -> None:
        super().__init__()
        sources = family.contained if linked else [()] * len(family)
        self.gather = Gather(sources)
        fan_in = torch.tensor([in_features * (1 + len(others)) for others in sources])
        self.own = _glorot(fan_in, out_features, in_features, generator)
        self.linked = nn.ParameterList(
            _glorot(fan_in[bucket.experts], out_features, bucket.n_blocks * in_features, generator)
            for bucket in self.gather.buckets
        )
        self.bias = nn.Parameter(torch.zeros(len(family), out_features, 1)) if bias else None

    def forward(self, features: Tensor, detach: bool = True) -> Tensor:
        """Combine every expert's own features with those linked to it."""
        return fused_layers(features, self.layer(detach))

    def layer(self, detach: bool = True) -> GatheredLinear:
        """Return the layer to apply to features."""
        return GatheredLinear(self.gather, detach, self.own, self.bias, _tensors(self.linked))


def perceptron(first: InputLinear, others: nn.ModuleList, rows: Tensor, detach: bool) -> Tensor:
    """Apply a first layer and linked ones with ReLU between them; return `[H, outputs, R]`."""
    blocks, layer = first.layer(rows, detach)
    linked = cast("Iterable[LinkedLinear]", others)
    return fused_layers(blocks, layer, *(other.layer(detach) for other in linked))


def _tensors(weights: nn.ParameterList) -> tuple[Tensor, ...]:
    """Return the parameters; the list's own iterator looks up each name and is 4 times slower."""
    return tuple(weights._parameters.values())  # type: ignore[arg-type]


def _glorot(
    fan_in: Tensor, out_features: int, in_features: int, generator: torch.Generator
) -> nn.Parameter:
    """Return `[experts, out, in]` after Glorot and Bengio (2010), by each expert's whole fan-in."""
    bound = (6 / (fan_in + out_features)).sqrt()[:, None, None]
    weights = torch.rand(len(fan_in), out_features, in_features, generator=generator)
    return nn.Parameter((2 * weights - 1) * bound)


def undrawn(in_features: int, out_features: int, bias: bool = True) -> nn.Linear:
    """Return a layer without weights; PyTorch would draw them from its global generator.

    It follows `with torch.device(…)`, so that a model without storage can be built, too.
    """
    device = torch.get_default_device()
    layer: nn.Linear = nn.utils.skip_init(
        nn.Linear, in_features, out_features, bias=bias, device=device
    )
    return layer


def dense(in_features: int, out_features: int, generator: torch.Generator) -> nn.Linear:
    """Return an ordinary layer drawn after Glorot and Bengio (2010), with biases of 0."""
    layer = undrawn(in_features, out_features)
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
