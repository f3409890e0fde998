"""Embeddings for groups whose columns hold ids, such as a user, an item or an age band.

All experts that may see a group share its tables, as published. `InputLinear` decides which of
them train the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from whence.errors import InputError, did_you_mean
from whence.experts.family import Family, Group
from whence.experts.linear import check_columns
from whence.experts.targets import first_invalid

INIT_STD = 0.05
"""Standard deviation of new embeddings, as in the published code."""


@dataclass(frozen=True)
class EmbeddingTable:
    """The size of the embedding table of a group's columns."""

    n_embeddings: int
    dim: int


class GroupEmbedding(nn.Module):
    """Embed ids `[R, columns]` as `[R, embedded columns]`, group by group.

    `embedded` is the same family over the embedded columns, for the layers that read them.
    """

    def __init__(
        self, family: Family, tables: Mapping[str, EmbeddingTable], generator: torch.Generator
    ) -> None:
        super().__init__()
        names = family.group_names
        for name in tables:
            if name not in names:
                raise InputError(
                    f"There is no group '{name}' to embed: {did_you_mean(name, names)}"
                )
        for name in names:
            if name not in tables:
                raise InputError(f"The group '{name}' has no embedding table. Add one to tables.")
        self.family = family
        self.tables = nn.ParameterList(
            torch.randn(
                len(group.columns),
                tables[group.name].n_embeddings,
                tables[group.name].dim,
                generator=generator,
            )
            * INIT_STD
            for group in family.groups
        )
        self.embedded = _embedded(family, tables)
        self.owners = [group.name for group in family.groups for _ in group.columns]
        columns = [column for group in family.groups for column in group.columns]
        sizes = [tables[name].n_embeddings for name in self.owners]
        self.register_buffer("columns", torch.tensor(columns), persistent=False)
        self.register_buffer("sizes", torch.tensor(sizes), persistent=False)

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the embeddings of all groups, concatenated."""
        self._check_numbers(numbers)
        return torch.cat(
            [
                table[
                    torch.arange(len(table), device=numbers.device), numbers[:, group.columns]
                ].flatten(1)
                for group, table in zip(self.family.groups, self.tables, strict=True)
            ],
            dim=1,
        )

    def _check_numbers(self, numbers: Tensor) -> None:
        """Check all groups at once, because every check synchronizes with the GPU."""
        check_columns(numbers, self.family.n_columns)
        if numbers.is_floating_point():
            raise InputError("Ids to embed must be integers. Convert them with numbers.long().")
        own, sizes = numbers[:, self.get_buffer("columns")], self.get_buffer("sizes")
        wrong = (own < 0) | (own >= sizes)
        invalid = first_invalid(own, wrong)
        if invalid is not None:
            column = int(wrong.nonzero()[0, 1])
            raise InputError(
                f"The group '{self.owners[column]}' holds {invalid:.0f}, but its embedding table "
                f"has only the rows 0 to {int(sizes[column]) - 1}."
            )


def _embedded(family: Family, tables: Mapping[str, EmbeddingTable]) -> Family:
    groups: list[Group] = []
    start = 0
    for group in family.groups:
        end = start + len(group.columns) * tables[group.name].dim
        groups.append(Group(group.name, tuple(range(start, end))))
        start = end
    return Family(tuple(groups), family.subsets)
