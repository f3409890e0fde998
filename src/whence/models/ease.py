"""EASE, a linear autoencoder in closed form (Steck 2019), and EASE with recency.

    G = XᵀX,  P = (G + λI)⁻¹,  B_ij = −P_ij / P_jj,  B_ii = 0

X has a row for each user and a 1 for each item of their training events. The score of the target j
is Σ_i w_i B_ij over the items i of the history. Steck has w = 1; with recency r, an item that is s
steps older than the newest slot has w = r^s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from scipy import sparse
from scipy.linalg import lapack
from torch import Tensor

from whence.arrays import Floats32, Ints
from whence.contract import DROPPED, ZEROED
from whence.data.histories import newest_events
from whence.data.interactions import Interactions
from whence.data.splits import Split
from whence.errors import InputError, TooLargeError
from whence.memory import cases_at_once, free_memory, row_slices
from whence.models.additive import AdditiveModel
from whence.models.item_pairs import chosen_once
from whence.models.registry import MODELS, ModelSpec, items_only
from whence.models.simple import PairsConfig


@dataclass(frozen=True)
class EASEConfig(PairsConfig):
    """The settings of EASE."""

    regularization: float = 5.0
    """λ, as a multiple of the mean number of distinct items of a user. A larger value makes the
    weights smaller and the model more like a count of pairs."""
    recency: float = 1.0
    """The weight of an item relative to that of the next newer one. 1 reads a history as a set."""
    neighbours: int = 200
    """How many weights are stored for each item, the largest ones."""
    max_items: int = 25_000
    """How many items can have weights, the most frequent ones. Memory grows with their square."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.regularization < np.inf:
            raise InputError(f"regularization must be above 0, not {self.regularization}.")
        if not 0 < self.recency <= 1:
            raise InputError(f"recency must be above 0 and at most 1, not {self.recency}.")
        if min(self.neighbours, self.max_items) < 1:
            raise InputError("neighbours and max_items must be at least 1.")


@dataclass(frozen=True)
class RecentEASEConfig(EASEConfig):
    """EASE with another default."""

    recency: float = 0.8
    """The weight of an item relative to that of the next newer one. 1 reads a history as a set."""


class EASE(AdditiveModel):
    """The model."""

    config: EASEConfig

    def __init__(self, config: EASEConfig, item_count: int, generator: torch.Generator) -> None:
        super().__init__(config, item_count, generator)
        # Otherwise the other items keep the weights of their slots.
        self.removal = DROPPED if config.recency == 1 else ZEROED

    def slot_weights(self, slots: int) -> Tensor:
        """Return r^s."""
        steps_back = torch.arange(slots - 1, -1, -1, device=self.terms.values.device)
        return self.config.recency ** steps_back.to(self.terms.values.dtype)

    def fit_closed(self, split: Split) -> None:
        """Compute B."""
        self.store(_weights(split, self.config))


_COMPUTED: WeakKeyDictionary[Interactions, dict[tuple[Any, ...], sparse.csr_array]] = (
    WeakKeyDictionary()
)
"""B takes a minute for a large catalog, and does not depend on the recency."""
BYTES_PER_PAIR: Final = 6
"""The matrix in single precision, and half as much again for what is done with it."""


def _weights(split: Split, config: EASEConfig) -> sparse.csr_array:
    """Return the largest weights of B, computed once for the same training events."""
    known = _COMPUTED.setdefault(split.interactions, {})
    trained = split.train_ends.tobytes()
    key = (trained, config.regularization, config.neighbours, config.max_items)
    if key not in known:
        known[key] = _compute_weights(split, config)
    return known[key].copy()


def _compute_weights(split: Split, config: EASEConfig) -> sparse.csr_array:
    data = split.interactions
    items = np.sort(np.argsort(-split.item_counts(), kind="stable")[: config.max_items])
    _check_memory(len(items), free_memory())
    event, user = newest_events(data.offsets[:-1], split.train_ends)
    chosen = chosen_once(user, data.items[event], (data.user_count, data.item_count))
    ridge = config.regularization * _mean_size(chosen)
    inverse = _inverse(_gram(chosen[:, items]), ridge)
    return _largest_weights(inverse, items, data.item_count, config.neighbours)


def _check_memory(items: int, free: int) -> None:
    """Refuse what does not fit, before the system ends the process."""
    needed = BYTES_PER_PAIR * items**2
    if needed > free:
        most = math.isqrt(free // BYTES_PER_PAIR)
        raise TooLargeError(
            f"EASE of {items:,} items needs {needed / 2**30:.1f} GB of memory, and "
            f"{free / 2**30:.1f} GB are free. Set max_items={most}."
        )


def _mean_size(chosen: sparse.csr_array) -> float:
    """Return the mean number of items of the users who have any; at least 1."""
    return chosen.nnz / max(1, np.count_nonzero(np.diff(chosen.indptr))) or 1.0


def _gram(chosen: sparse.csr_array) -> Floats32:
    """Return XᵀX, some rows at a time."""
    count = chosen.shape[1]
    turned = sparse.csr_array(chosen.T)
    gram = np.empty((count, count), dtype=np.float32)
    for rows in row_slices(count, cases_at_once(count)):
        gram[rows] = (turned[rows] @ chosen).toarray()
    return gram


def _inverse(gram: Floats32, ridge: float) -> Floats32:
    """Return the upper triangle of (G + λI)⁻¹, in the memory of G."""
    np.einsum("ii->i", gram)[:] += ridge
    # LAPACK reads columns, so its lower triangle is the upper one here, and nothing is copied.
    factor, failed = lapack.spotrf(gram.T, lower=1, clean=0, overwrite_a=1)
    if not failed:
        inverse, failed = lapack.spotri(factor, lower=1, overwrite_c=1)
    if failed:
        raise InputError(
            f"EASE cannot invert its matrix with λ = {ridge:g}, which is too small for single "
            "precision. Raise regularization."
        )
    found: Floats32 = inverse.T
    return found


def _largest_weights(
    inverse: Floats32, items: Ints, item_count: int, neighbours: int
) -> sparse.csr_array:
    """Return the largest |B| of each row, under the numbers of all items."""
    diagonal = np.diagonal(inverse).copy()
    kept = min(neighbours, len(items))
    pieces = []
    for rows, block in _whole_rows(inverse):
        weights = -block / diagonal
        weights[np.arange(len(rows)), rows] = 0
        columns = np.argpartition(-np.abs(weights), kept - 1, axis=1)[:, :kept]
        row = np.repeat(items[rows], kept)
        value = np.take_along_axis(weights, columns, axis=1).ravel()
        pieces.append((row, items[columns.ravel()], value))
    row, column, value = (np.concatenate(part) for part in zip(*pieces, strict=True))
    return sparse.csr_array((value, (row, column)), shape=(item_count, item_count))


def _whole_rows(upper: Floats32) -> Iterator[tuple[Ints, Floats32]]:
    """Yield rows of the symmetric matrix of which only the upper triangle is given."""
    count = len(upper)
    for some in row_slices(count, cases_at_once(count)):
        rows = np.arange(count)[some]
        block = upper[some].copy()
        block[:, : rows[0]] = upper[: rows[0], some].T
        corner = np.triu(block[:, rows])
        block[:, rows] = corner + np.triu(corner, 1).T
        yield rows, block


MODELS.add(
    "ease",
    ModelSpec(
        EASEConfig,
        items_only(EASE),
        summary="A linear autoencoder in closed form; reads a history as a set.",
        closed_form=True,
    ),
    tags=("simple",),
    place=140,
)
MODELS.add(
    "recent-ease",
    ModelSpec(
        RecentEASEConfig,
        items_only(EASE),
        summary="EASE in which newer items of the history count more.",
        closed_form=True,
    ),
    tags=("simple",),
    place=150,
)
