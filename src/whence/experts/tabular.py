"""Models of tables with named groups of columns, behind the contract of all models.

The parts of a row are its groups, so rows `[B, columns]` have parts `[B, groups]`. A part's
embedding is its own columns, padded with zeros to the size of the largest group.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from whence.contract import COLUMN_MEANS, All, Explainable
from whence.errors import InputError
from whence.experts.family import Family
from whence.experts.linear import first_columns
from whence.experts.targets import Target, check_labels


class TabularModel(nn.Module, Explainable):
    """Base of interpretable networks and their ordinary counterparts.

    An absent group has its columns set to their `means`, which default to 0.
    """

    removal = COLUMN_MEANS

    def __init__(self, family: Family, target: Target, means: Tensor | None = None) -> None:
        super().__init__()
        self.family, self.target = family, target
        means = torch.zeros(family.n_columns) if means is None else means
        if means.shape != (family.n_columns,):
            raise InputError(f"Means are needed for {family.n_columns} columns, not {len(means)}.")
        self.register_buffer("means", means)
        widest = max(len(group.columns) for group in family.groups)
        places = torch.full((len(family.groups), widest), family.n_columns)
        for row, group in zip(places, family.groups, strict=True):
            row[: len(group.columns)] = torch.tensor(group.columns)
        self.register_buffer("places", places, persistent=False)
        self.register_buffer("group_of", _group_of(family), persistent=False)

    def loss(self, rows: Tensor, labels: Tensor) -> Tensor:
        """Return the training loss."""
        raise NotImplementedError

    def scores(self, rows: Tensor) -> Tensor:
        """Return the score of every target, `[B, t]`: logits of classes, or the real number."""
        raise NotImplementedError

    def parts(self, batch: Tensor) -> Tensor:
        """Return every group as a part."""
        return torch.ones(
            len(batch), len(self.family.groups), dtype=torch.bool, device=batch.device
        )

    def part_names(self, batch: Tensor) -> list[list[str]]:
        """Return the groups' names."""
        return [list(self.family.group_names) for _ in batch]

    def embed(self, batch: Tensor) -> Tensor:
        """Return each group's columns, padded with zeros."""
        own = first_columns(batch, self.family.n_columns)
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
        """Score rows with some groups at their means, or with other embeddings."""
        own = first_columns(batch, self.family.n_columns)
        rows = own if embedded is None else self._columns(embedded)
        if present is not None:
            kept = present[:, self.get_buffer("group_of")]
            rows = torch.where(kept, rows, self.get_buffer("means").to(rows.dtype))
        scores = self.scores(rows)
        return scores if isinstance(targets, All) else scores.gather(1, targets)

    def _check_labels(self, rows: Tensor, labels: Tensor) -> None:
        check_paired(rows, labels)
        check_labels(self.target, labels)

    def _columns(self, embedded: Tensor) -> Tensor:
        """Put the groups' columns back into rows."""
        places = self.get_buffer("places").flatten()
        kept = places < self.family.n_columns
        columns = embedded.new_zeros(len(embedded), self.family.n_columns)
        return columns.index_copy(1, places[kept], embedded.flatten(1)[:, kept])


def check_paired(rows: Tensor, labels: Tensor) -> None:
    """Raise unless there are rows and each has one label."""
    if not len(rows):
        raise InputError("There are no rows to train on. Pass at least one.")
    if labels.shape != rows.shape[:1]:
        count = " × ".join(map(str, labels.shape)) or "1"
        raise InputError(
            f"There are {len(rows)} rows and {count} labels. Pass one label for each row."
        )


def _group_of(family: Family) -> Tensor:
    """Return the group of each column, `[columns]`; a column of no group counts to the first."""
    owner = torch.zeros(family.n_columns, dtype=torch.long)
    for number, group in enumerate(family.groups):
        owner[list(group.columns)] = number
    return owner
