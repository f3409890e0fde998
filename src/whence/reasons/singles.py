"""What models expect after single items: the usual, which evidence is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.contract import ALL
from whence.devices import device_of
from whence.memory import cases_at_once, row_slices
from whence.models.base import CaseReader
from whence.reasons.groups import ItemGroups

REFERENCES: Final = 256
"""How many single items make up the average of what single items bring."""
REFERENCE_SCORES: Final = 2**24
"""The largest number of log-probabilities that are kept of single items."""
SMALLEST: Final = 1e-30
"""A probability whose logarithm is finite."""


@dataclass(frozen=True, eq=False)
class SingleItems:
    """The answers of a model to histories of one item."""

    model: CaseReader
    items: Tensor
    """`[R]`: items spread over the catalog."""
    log_probability: Tensor
    """`[R, items]`."""
    _masses: dict[ItemGroups, Tensor] = field(default_factory=dict)

    @staticmethod
    @torch.no_grad()
    def of(model: CaseReader, item_count: int) -> SingleItems:
        """Ask a model."""
        device = device_of(model)
        count = min(REFERENCES, max(1, REFERENCE_SCORES // item_count))
        each = np.unique(np.linspace(0, item_count - 1, count).round().astype(np.int64))
        items = torch.from_numpy(each).to(device)
        return SingleItems(model, items, _scored(model, items, item_count))

    @cached_property
    def mean(self) -> Tensor:
        """Return `[items]`."""
        return self.log_probability.mean(dim=0)

    @cached_property
    def spread(self) -> Tensor:
        """Return `[items]`: the standard deviation."""
        return self.log_probability.std(dim=0, correction=0)

    @cached_property
    def in_order(self) -> Tensor:
        """Return `[items, R]`: what the items bring to each item, in ascending order."""
        return self.log_probability.T.sort(dim=1).values

    @cached_property
    def marginal(self) -> Tensor:
        """Return `[items]`: log p(item), if the only item of the history is drawn by the model."""
        each = self.log_probability.exp()
        weight = each[:, self.items].mean(dim=0)
        return (weight @ each / weight.sum()).clamp(min=SMALLEST).log()

    @property
    def fit_into_memory(self) -> bool:
        """Return whether the answers to all items do."""
        return len(self.mean) ** 2 <= REFERENCE_SCORES

    @property
    def are_tabulated(self) -> bool:
        """Return whether `lift` is known already, so that it costs nothing."""
        return "lift" in vars(self)

    @cached_property
    @torch.no_grad()
    def lift(self) -> Tensor:
        """Return `[items, items]`: what each item brings to each, above the usual.

        It takes as long as the reasons of some hundred users.
        """
        items = torch.arange(len(self.mean), device=self.items.device)
        return _scored(self.model, items, len(items)).sub_(self.mean)

    @cached_property
    def lift_in_order(self) -> Tensor:
        """Return `[items, R]`: what each item brings to the items, in ascending order."""
        return self.lift[:, self.items].sort(dim=1).values

    def of_targets(self, targets: Tensor) -> Tensor:
        """Return `[…, R]`: what each item brings to the targets `[…]`."""
        return self.log_probability.T[targets]

    def mass(self, groups: ItemGroups) -> Tensor:
        """Return `[groups]`: log of the mean of p(group | one item), over items of other groups."""
        if groups not in self._masses:
            self._masses[groups] = self._mass(groups)
        return self._masses[groups]

    def _mass(self, groups: ItemGroups) -> Tensor:
        member = groups.member.to(self.log_probability.dtype)
        each = self.log_probability.exp() @ member.T  # [R, groups]
        outside = (~groups.member.T[self.items]).to(each.dtype)
        mean = (each * outside).sum(dim=0) / outside.sum(dim=0).clamp(min=1)
        return mean.clamp(min=SMALLEST).log()

    def marginal_mass(self, groups: ItemGroups) -> Tensor:
        """Return `[groups]`: log p(any item of the group), whatever the history."""
        found = self.marginal.exp() @ groups.member.T.to(self.marginal.dtype)
        return found.clamp(min=SMALLEST).log()


def _scored(model: CaseReader, items: Tensor, item_count: int) -> Tensor:
    """Return `[R, items]`: the log-probabilities of all items, given one item each."""
    found = [
        model.score(items[rows, None], ALL).log_softmax(dim=1)
        for rows in row_slices(len(items), cases_at_once(item_count, items.is_cuda))
    ]
    return torch.cat(found)
