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
from whence.memory import SCORES_AT_ONCE
from whence.models.additive import AdditiveModel
from whence.models.item_pairs import chosen_once
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
    """Return the largest entries of each row of `columnsᵀ · columns`, without the diagonal.

    It computes as many rows at once as are sure to fit into memory.
    """
    turned = sparse.csr_array(columns.T)
    work = np.cumsum((turned != 0) @ np.diff(columns.indptr))
    cuts = np.searchsorted(work, np.arange(SCORES_AT_ONCE, work[-1], SCORES_AT_ONCE))
    found = []
    for rows in np.split(np.arange(turned.shape[0]), np.unique(cuts)):
        product = sparse.coo_array(turned[rows] @ columns)
        other = rows[product.row] != product.col
        order = np.lexsort((-product.data[other], product.row[other]))
        row, column, value = (
            part[other][order] for part in (product.row, product.col, product.data)
        )
        first = np.searchsorted(row, row)
        kept = np.arange(len(row)) - first < most
        shape = (len(rows), columns.shape[1])
        found.append(sparse.csr_array((value[kept], (row[kept], column[kept])), shape=shape))
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
