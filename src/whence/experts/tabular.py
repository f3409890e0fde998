"""Models of tables with named groups of columns, as explainers and measures know every model.

The parts of a row are its groups: of rows `[B, columns]` the parts are `[B, groups]`. A part's
embedding is its own columns, filled with zeros up to as many as the widest group has.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from whence.contract import All, Explainable
from whence.errors import InputError
from whence.experts.family import Family
from whence.experts.linear import first_columns
from whence.experts.targets import Target, refuse_others


class TabularModel(nn.Module, Explainable):
    """What interpretable networks and their ordinary counterparts share.

    A group is taken away by setting its columns to their `means`, 0 where none are given.
    """

    removal = "column means"

    def __init__(self, family: Family, target: Target, means: Tensor | None = None) -> None:
        super().__init__()
        self.family, self.target = family, target
        means = torch.zeros(family.width) if means is None else means
        if means.shape != (family.width,):
            raise InputError(f"Means are needed of {family.width} columns, not {len(means)}.")
        self.register_buffer("means", means)
        widest = max(len(group.columns) for group in family.groups)
        places = torch.full((len(family.groups), widest), family.width)
        for row, group in zip(places, family.groups, strict=True):
            row[: len(group.columns)] = torch.tensor(group.columns)
        self.register_buffer("places", places, persistent=False)
        self.register_buffer("group_of", _group_of(family), persistent=False)

    def loss(self, rows: Tensor, truth: Tensor) -> Tensor:
        """What training makes small."""
        raise NotImplementedError

    def scores(self, rows: Tensor) -> Tensor:
        """`[B, t]` of every target: the classes' logits, or the one real number."""
        raise NotImplementedError

    def parts(self, batch: Tensor) -> Tensor:
        """Every group is a part."""
        return torch.ones(
            len(batch), len(self.family.groups), dtype=torch.bool, device=batch.device
        )

    def part_names(self, batch: Tensor) -> list[list[str]]:
        """The groups' names."""
        return [list(self.family.group_names) for _ in batch]

    def embed(self, batch: Tensor) -> Tensor:
        """Each group's columns, one more column of zeros filling up."""
        own = first_columns(batch, self.family.width)
        filled = torch.cat((own, batch.new_zeros(len(batch), 1)), dim=1)
        return filled[:, self.get_buffer("places")]

    def score(
        self,
        batch: Tensor,
        targets: Tensor | All,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Of rows with some groups at their means, or with other embeddings."""
        own = first_columns(batch, self.family.width)
        rows = own if embedded is None else self._columns(embedded)
        if present is not None:
            kept = present[:, self.get_buffer("group_of")]
            rows = torch.where(kept, rows, self.get_buffer("means").to(rows.dtype))
        scores = self.scores(rows)
        return scores if isinstance(targets, All) else scores.gather(1, targets)

    def _refuse_other_truths(self, rows: Tensor, truth: Tensor) -> None:
        refuse_unpaired(rows, truth)
        refuse_others(self.target, truth)

    def _columns(self, embedded: Tensor) -> Tensor:
        """Back from the groups' columns to the row's."""
        places = self.get_buffer("places").flatten()
        kept = places < self.family.width
        columns = embedded.new_zeros(len(embedded), self.family.width)
        return columns.index_copy(1, places[kept], embedded.flatten(1)[:, kept])


def refuse_unpaired(rows: Tensor, truth: Tensor) -> None:
    """Raise unless there are rows, and every one has one truth."""
    if not len(rows):
        raise InputError("There are no rows to learn from; give one at least.")
    if truth.shape != rows.shape[:1]:
        count = " × ".join(map(str, truth.shape)) or "1"
        raise InputError(f"There are {len(rows)} rows and {count} truths; give one to each.")


def _group_of(family: Family) -> Tensor:
    """`[columns]`: the group each column belongs to; a column of none goes with the first."""
    owner = torch.zeros(family.width, dtype=torch.long)
    for number, group in enumerate(family.groups):
        owner[list(group.columns)] = number
    return owner
