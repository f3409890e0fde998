"""Linear layers over experts: expert i reads its own features and those of experts it contains.

h_i ← W_ii h_i + Σ_{j ∈ ω(i)} W_ij [h_j] + b_i, where no gradient passes the brackets (equation 14
and the paragraph below it in Afchar & Hennequin 2020). The blocks W_ij themselves are learned.

Features of `H` experts are `[H, w, R]`: `w` of each, for `R` rows, which are cases or their steps.
Whoever explains a trained network asks for the whole gradient, with `stop=False`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, cast

import torch
from torch import Tensor, nn

from whence.errors import InputError
from whence.experts.family import Family
from whence.experts.products import Joining, Layer, joined_products

Taught = Literal["all", "smallest"]


class InputLinear(nn.Module):
    """The first layer: `[R, columns]` to `[H, outputs, R]`, each expert from its own columns.

    Columns that are learned themselves, such as embeddings, are taught by the smallest experts that
    see them; others read them without a gradient, so that no expert learns from one that contains
    it. In the published code they are taught by "all". Rows that lie otherwise than the family says
    have `columns` of their own for every expert.
    """

    def __init__(
        self,
        family: Family,
        outputs: int,
        generator: torch.Generator,
        *,
        bias: bool = True,
        taught: Taught = "smallest",
        columns: Sequence[Sequence[int]] | None = None,
    ) -> None:
        super().__init__()
        seen = family.columns if columns is None else columns
        for name, some in zip(family.names, seen, strict=True):
            if not some:
                raise InputError(f"The expert '{name}' sees no column of these rows.")
        self.width = 1 + max(map(max, seen))
        self.joining = Joining(seen)
        copies = _columns_and_copies(seen, family.contained, self.width)
        self.stopping = Joining(copies) if taught == "smallest" else None
        self.weights = nn.ParameterList(
            _drawn(torch.full((shelf.count,), shelf.blocks), outputs, shelf.blocks, generator)
            for shelf in self.joining.shelves
        )
        self.bias = nn.Parameter(torch.zeros(len(family), outputs, 1)) if bias else None

    def forward(self, inputs: Tensor, stop: bool = True) -> Tensor:
        """What every expert makes of its columns."""
        return joined_products(*self.layer(inputs, stop))

    def layer(self, inputs: Tensor, stop: bool = True) -> tuple[Tensor, Layer]:
        """The columns as blocks, and what is made of them."""
        joining, inputs = self.joining, first_columns(inputs, self.width)
        # Whether the rows themselves are learned cannot be asked inside `torch.vmap`.
        learned = inputs.requires_grad or torch._C._are_functorch_transforms_active()
        if self.stopping is not None and stop and learned and torch.is_grad_enabled():
            joining, inputs = self.stopping, torch.cat((inputs, inputs.detach()), dim=1)
        blocks = inputs.T.contiguous()[:, None]  # a column is read as a whole
        return blocks, Layer(joining, False, None, self.bias, _all(self.weights))


def first_columns(rows: Tensor, width: int) -> Tensor:
    """`[R, width]`: those that a family names, of rows that may have more."""
    refuse_narrow(rows, width)
    if not rows.is_floating_point():
        raise InputError("Rows hold no real numbers; make them some with rows.float().")
    return rows[:, :width]


def refuse_narrow(rows: Tensor, width: int) -> None:
    """Raise unless these are rows, with a column at least for each that a family names."""
    if rows.ndim != 2:
        raise InputError(
            f"Rows are needed as [rows, columns], not as {list(rows.shape)}; a single one is "
            "row[None]."
        )
    if rows.shape[1] < width:
        raise InputError(
            f"The family names columns up to {width - 1}, from 0; rows have {rows.shape[1]}."
        )


def _columns_and_copies(
    seen: Sequence[Sequence[int]], contained: Sequence[Sequence[int]], width: int
) -> list[list[int]]:
    """Each expert's columns; those it does not teach in the copy that stands after all columns."""
    columns: list[list[int]] = []
    for own, inside in zip(seen, contained, strict=True):
        taught_below = {column for other in inside for column in seen[other]}
        columns.append([column + (width if column in taught_below else 0) for column in own])
    return columns


class LinkedLinear(nn.Module):
    """`[H, inputs, R]` to `[H, outputs, R]`, with links from contained experts or without."""

    def __init__(
        self,
        family: Family,
        inputs: int,
        outputs: int,
        generator: torch.Generator,
        *,
        bias: bool = True,
        links: bool = True,
    ) -> None:
        super().__init__()
        sources = family.contained if links else [()] * len(family)
        self.joining = Joining(sources)
        fan_in = torch.tensor([inputs * (1 + len(others)) for others in sources])
        self.own = _drawn(fan_in, outputs, inputs, generator)
        self.linked = nn.ParameterList(
            _drawn(fan_in[shelf.experts], outputs, shelf.blocks * inputs, generator)
            for shelf in self.joining.shelves
        )
        self.bias = nn.Parameter(torch.zeros(len(family), outputs, 1)) if bias else None

    def forward(self, features: Tensor, stop: bool = True) -> Tensor:
        """What every expert makes of its own features and of those linked to it."""
        return joined_products(features, self.layer(stop))

    def layer(self, stop: bool = True) -> Layer:
        """What is made of features."""
        return Layer(self.joining, stop, self.own, self.bias, _all(self.linked))


def perceptron(first: InputLinear, others: nn.ModuleList, rows: Tensor, stop: bool) -> Tensor:
    """`[H, outputs, R]`: of a first layer and linked ones, with ReLU between them."""
    blocks, layer = first.layer(rows, stop)
    linked = cast("Iterable[LinkedLinear]", others)
    return joined_products(blocks, layer, *(other.layer(stop) for other in linked))


def _all(weights: nn.ParameterList) -> tuple[Tensor, ...]:
    """Of a list, whose own iterator looks up every name, which takes four times as long."""
    return tuple(weights._parameters.values())  # type: ignore[arg-type]


def _drawn(fan_in: Tensor, outputs: int, inputs: int, generator: torch.Generator) -> nn.Parameter:
    """`[experts, outputs, inputs]` after Glorot and Bengio (2010), by all that an expert reads."""
    reach = (6 / (fan_in + outputs)).sqrt()[:, None, None]
    weights = torch.rand(len(fan_in), outputs, inputs, generator=generator)
    return nn.Parameter((2 * weights - 1) * reach)
