"""Neighbours: how near each part is to the target among the model's item vectors."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from whence.explainers.base import EXPLAINERS, Attribution, Explainer, Request


@dataclass(frozen=True)
class Neighbours(Explainer):
    """exp(−‖e_j − e_i‖² / r²) for the part j and the target i.

    r² is the mean squared distance between two items. So the target itself scores 1, an item as far
    away as two items are on average scores 1/e, and scaling, shifting or rotating all vectors
    changes nothing.
    """

    method = "neighbours"
    needs = ("embed", "item_vectors")
    signed = False
    target_specific = True
    cost = "0"
    summary = "How near each {part} is to the target among the vectors that the model learned."

    def __call__(self, request: Request) -> Attribution:
        """Compare vectors only: the model need not use what is near."""
        vectors = request.item_vectors()
        target = vectors[request.targets][:, None]
        distance = (request.embeddings() - target).square().sum(dim=-1)
        return Attribution((-distance / mean_square_distance(vectors)).exp(), evaluations=0)


def mean_square_distance(vectors: Tensor) -> Tensor:
    """Return the mean over pairs of rows of `[items, d]`; 1 if all rows are equal."""
    square = 2 * vectors.var(dim=0, correction=0).sum()
    return square.where(square > 0, 1)


EXPLAINERS.add("neighbours", Neighbours(), aliases=("neighbors",), place=800)
