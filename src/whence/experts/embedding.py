"""Embeddings for groups whose columns are numbers of things: a user, an item, an age band.

All experts that may see a group share its table, as published; who teaches it is said where it is
read (`InputLinear`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from whence.errors import InputError, did_you_mean
from whence.experts.family import Family, Group
from whence.experts.linear import refuse_narrow
from whence.experts.targets import first_wrong

SPREAD = 0.05
"""Standard deviation of new embeddings, as in the published code."""


@dataclass(frozen=True)
class Table:
    """How many things a column counts, and how many numbers stand for each."""

    things: int
    width: int


class GroupEmbedding(nn.Module):
    """`[R, columns]` whole numbers to `[R, embedded columns]`, group by group.

    `embedded` is the same family over the embedded columns, for the layers that read them.
    """

    def __init__(
        self, family: Family, tables: Mapping[str, Table], generator: torch.Generator
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
                raise InputError(f"The group '{name}' has no table to embed it by.")
        self.family = family
        self.tables = nn.ParameterList(
            torch.randn(
                len(group.columns),
                tables[group.name].things,
                tables[group.name].width,
                generator=generator,
            )
            * SPREAD
            for group in family.groups
        )
        self.embedded = _embedded(family, tables)
        self.owners = [group.name for group in family.groups for _ in group.columns]
        columns = [column for group in family.groups for column in group.columns]
        things = [tables[name].things for name in self.owners]
        self.register_buffer("columns", torch.tensor(columns), persistent=False)
        self.register_buffer("things", torch.tensor(things), persistent=False)

    def forward(self, numbers: Tensor) -> Tensor:
        """The rows of every group's tables, side by side."""
        self._refuse_others(numbers)
        return torch.cat(
            [
                table[
                    torch.arange(len(table), device=numbers.device), numbers[:, group.columns]
                ].flatten(1)
                for group, table in zip(self.family.groups, self.tables, strict=True)
            ],
            dim=1,
        )

    def _refuse_others(self, numbers: Tensor) -> None:
        """Of all groups at once: on a GPU every question waits for what was begun before."""
        refuse_narrow(numbers, self.family.width)
        if numbers.is_floating_point():
            raise InputError("Things have whole numbers; make them some with numbers.long().")
        own, things = numbers[:, self.get_buffer("columns")], self.get_buffer("things")
        wrong = (own < 0) | (own >= things)
        told = first_wrong(own, wrong)
        if told is not None:
            place = int(wrong.nonzero()[0, 1])
            raise InputError(
                f"There is {told:.0f} in the group '{self.owners[place]}'; its table has the "
                f"numbers 0 to {int(things[place]) - 1}."
            )


def _embedded(family: Family, tables: Mapping[str, Table]) -> Family:
    groups: list[Group] = []
    start = 0
    for group in family.groups:
        end = start + len(group.columns) * tables[group.name].width
        groups.append(Group(group.name, tuple(range(start, end))))
        start = end
    return Family(tuple(groups), family.subsets)
