"""Item to item: the cosines of a target with the items of the history (Sarwar et al. 2001)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from whence.data.histories import newest_events
from whence.data.splits import Split
from whence.errors import InputError
from whence.models.additive import AdditiveModel
from whence.models.item_pairs import chosen_once, row_products
from whence.models.registry import MODELS, ModelSpec, items_only
from whence.models.simple import PairsConfig

TIE_BREAK = 1e-6
"""What the most popular item has more than one without events: less than any cosine."""


@dataclass(frozen=True)
class ItemToItemConfig(PairsConfig):
    """The settings of item to item."""

    recent: int = 100
    """How many of each user's newest training events count."""
    neighbours: int = 100
    """How many similar items are stored for each item."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.recent, self.neighbours) < 1:
            raise InputError("recent and neighbours must be at least 1.")


class ItemToItem(AdditiveModel):
    """The sum of the target's cosines with the distinct items of the history.

    The cosine of two items is the number of users they share over the root of the product of their
    numbers of users. Popularity ranks the items without similarity.
    """

    config: ItemToItemConfig
    popularity: Tensor

    def __init__(
        self, config: ItemToItemConfig, item_count: int, generator: torch.Generator
    ) -> None:
        super().__init__(config, item_count, generator)
        self.register_buffer("popularity", torch.zeros(item_count))

    def constants(self) -> Tensor:
        """Return a tiny popularity."""
        return self.popularity

    def scale(self, factor: float) -> None:
        """Multiply the popularity, too, which must stay less than any cosine."""
        super().scale(factor)
        self.popularity = self.popularity * factor

    def fit_closed(self, split: Split) -> None:
        """Compute the cosines, and keep the largest of each item."""
        data, counts = split.interactions, split.item_counts()
        fame = (TIE_BREAK * counts / (1 + counts.max())).astype(np.float32)
        self.popularity = torch.from_numpy(fame).to(self.popularity.device)
        event, user = newest_events(data.offsets[:-1], split.train_ends, self.config.recent)
        chosen = chosen_once(user, data.items[event], (data.user_count, data.item_count))
        lengths = np.sqrt(np.maximum(chosen.sum(axis=0), 1), dtype=np.float32)
        self.store(_largest_products(sparse.csr_array(chosen / lengths), self.config.neighbours))


def _largest_products(columns: sparse.csr_array, most: int) -> sparse.csr_array:
    """Return the largest entries of each row of `columnsᵀ · columns`, without the diagonal."""
    found = []
    for first, rows in row_products(columns):
        product = sparse.coo_array(rows)
        other = first + product.row != product.col
        order = np.lexsort((-product.data[other], product.row[other]))
        row, column, value = (
            part[other][order] for part in (product.row, product.col, product.data)
        )
        start = np.searchsorted(row, row)
        kept = np.arange(len(row)) - start < most
        found.append(sparse.csr_array((value[kept], (row[kept], column[kept])), shape=rows.shape))
    return sparse.csr_array(sparse.vstack(found))


MODELS.add(
    "item-to-item",
    ModelSpec(
        ItemToItemConfig,
        items_only(ItemToItem),
        summary="Cosine similarities to the items of a history, which is read as a set.",
        closed_form=True,
    ),
    tags=("simple",),
    place=130,
)
