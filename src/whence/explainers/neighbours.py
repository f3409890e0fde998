"""Neighbours: how near each part is to the target, in what the model has learned of items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from whence.contract import HasEmbeddings, HasItemVectors
from whence.explainers.base import Attribution, Inquiry


@dataclass(frozen=True)
class Neighbours:
    """exp(−‖e_j − e_i‖² / r²) for the part j and the target i.

    r² is the mean squared distance between two items. So 1 is the target itself, 1/e as far away
    as any two items are, and no scale, shift or rotation of all vectors changes it.
    """

    method: ClassVar[str] = "neighbours"
    needs: ClassVar[tuple[str, ...]] = ("embed", "item_vectors")
    signed: ClassVar[bool] = False
    cost: ClassVar[str] = "0"
    words: ClassVar[str] = "How near each {part} is to the target among all that the model learned."

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """The model is asked for no score: it need not use what is near."""
        model = inquiry.model
        assert isinstance(model, HasItemVectors)
        assert isinstance(model, HasEmbeddings)
        vectors = model.item_vectors()
        target = vectors[inquiry.targets][:, None]
        distance = (model.embed(inquiry.batch) - target).square().sum(dim=-1)
        return Attribution((-distance / mean_square_distance(vectors)).exp(), evaluations=0)


def mean_square_distance(vectors: Tensor) -> Tensor:
    """Between two that are drawn from `[items, d]`; 1 where all are the same."""
    square = 2 * vectors.var(dim=0, correction=0).sum()
    return square.where(square > 0, 1)
