"""The baseline of models that predict ratings; the others are the simple models of the registry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from whence.contract import DROPPED, PAD, All
from whence.data.splits import Split
from whence.models.base import CaseReader

MEAN_RATING = "mean rating"
"""The name of the baseline."""


class MeanRating(CaseReader):
    """The mean of all training ratings, for every item."""

    removal = DROPPED
    predicts_probabilities = False

    def __init__(self, split: Split) -> None:
        ratings = split.interactions.ratings
        assert ratings is not None
        self.mean = float(ratings[split.trained()].mean(dtype=np.float64))
        self.item_count = split.interactions.item_count

    def parts(self, batch: Tensor) -> Tensor:
        """Return the slots with an item."""
        return batch != PAD

    def score(
        self,
        batch: Tensor,
        targets: Tensor | All,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return the mean for every target."""
        count = self.item_count if isinstance(targets, All) else targets.shape[1]
        return torch.full((len(batch), count), self.mean)
